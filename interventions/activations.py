"""The activations of `supple.networks.activations`, under the path by which people import them."""

from ..networks.activations import *  # noqa: F403 - all that is public there, and no more
from ..networks.activations import __all__ as __all__
