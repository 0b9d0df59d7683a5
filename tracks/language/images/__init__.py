"""Image–text models: the pretraining of a CLIP on captions, and image domains that it learns in sequence."""

from .clip import Clip
from .domains import Domain, read_domain
from .loading import load_clip

__all__ = ["Clip", "Domain", "load_clip", "read_domain"]
