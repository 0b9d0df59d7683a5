"""The activations of `supple.networks.activations`, importable from the public path."""

from ..networks.activations import *  # noqa: F403 - all that is public there, and no more
from ..networks.activations import __all__ as __all__
