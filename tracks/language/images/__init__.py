"""Image–text models: a CLIP pretrained on captions, and image domains that it learns one after the other."""

from .clip import Clip, load_clip
from .domains import Domain, read_domain

__all__ = ["Clip", "Domain", "load_clip", "read_domain"]
