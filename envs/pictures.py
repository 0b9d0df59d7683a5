"""Pictures in observations: which observations are images, and how an image lies in a row of numbers."""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from gymnasium import spaces

from .fault import text_of

Observations = Literal["auto", "image", "hwc", "chw", "vector"]
SMALLEST = 3  # pixels on a side, those of the smallest kernel


class Picture(NamedTuple):
    """The place of an image in the first numbers of a row, and the scale of its values.

    Attributes:
        channels: The number of channels, those of all frames if several are stacked.
        height: The height in pixels.
        width: The width in pixels.
        last: Whether the channels of a pixel lie together ("channels last").
        frames: With channels last, the number of stacked images, which lie one after the other.
        low: The value that is scaled to 0.
        high: The value that is scaled to 1. Both are NaN if the space has no bounds: nothing is scaled then.
    """

    channels: int
    height: int
    width: int
    last: bool = False
    frames: int = 1
    low: float = 0.0
    high: float = 255.0

    @property
    def size(self) -> int:
        """The number of values."""
        return self.channels * self.height * self.width

    def __str__(self) -> str:
        order = "last" if self.last else "first"
        scale = ", not scaled" if math.isnan(self.low) else f", scaled from {self.low:g}…{self.high:g} to 0…1"
        as_is = (self.low, self.high) == (0, 1)
        shape = f"{self.height} × {self.width} pixels and {self.channels} channels (channels {order})"
        return f"images of {shape}{'' if as_is else scale}"


class SpacePart(NamedTuple):
    """A part of an observation space: its name in a Dict or Tuple, or "", and its own space."""

    name: str
    space: spaces.Space


def find_image(shown: spaces.Space, observations: Observations = "auto") -> SpacePart | None:
    """Return the part of a space that is an image, or None if observations are vectors.

    A Box of three dimensions is an image, and one of four a stack of images, as Gymnasium's `FrameStackObservation`
    makes it, if its sides have 3 pixels or more. One part of a Dict or Tuple may be an image: parts of fewer
    dimensions beside it are matrices, or stacks of matrices, and read as vectors.

    Args:
        shown: The observation space.
        observations: "image": there must be an image, and a Box of two dimensions, (height, width), is one too.
            "hwc", "chw": there must be one, with its channels last or first. "vector": there is none, whatever the
            shape.

    Raises:
        ValueError: A Dict or Tuple has several images, or an image is asked for and there is none.
    """
    if observations == "vector":
        return None
    dimensions = (2, 3, 4) if observations == "image" else (3, 4)
    found = [part for part in parts_of(shown) if _is_image(part.space, dimensions, observations)]
    deepest = max((len(part.space.shape or ()) for part in found), default=0)
    found = [part for part in found if len(part.space.shape or ()) == deepest]
    if len(found) > 1:
        raise ValueError(
            f"observations of {text_of(shown)} have several images ({', '.join(part.name for part in found)}), but "
            "networks read one: join them in a wrapper, or use --observations vector"
        )
    if not found and observations != "auto":
        raise ValueError(f"--observations {observations} needs images, but observations are {text_of(shown)}")
    return found[0] if found else None


def picture_of(image: spaces.Space, observations: Observations = "auto") -> Picture:
    """Return how an image, a Box of two to four dimensions, lies in the row of its numbers in C order.

    The channels are last for "hwc" and first for "chw". Else they are first if the first side is smaller than the last.
    """
    assert isinstance(image, spaces.Box)
    low, high = (float(bound) for bound in (image.low.min(), image.high.max()))
    if not (math.isfinite(low) and math.isfinite(high) and low < high and high - low < 1e18):
        low = high = math.nan
    if len(image.shape) == 2:
        return Picture(1, *image.shape, low=low, high=high)
    *frames, a, b, c = image.shape
    count = math.prod(frames)
    if observations == "chw" or (a < c and observations != "hwc"):
        return Picture(count * a, b, c, low=low, high=high)
    return Picture(count * c, a, b, True, count, low, high)


def parts_of(shown: spaces.Space, name: str = "") -> Iterator[SpacePart]:
    """Yield every part of a space that is neither a Dict nor a Tuple."""
    if isinstance(shown, spaces.Dict):
        for key, part in shown.spaces.items():
            yield from parts_of(part, f"{name}[{key!r}]")
    elif isinstance(shown, spaces.Tuple):
        for i, part in enumerate(shown.spaces):
            yield from parts_of(part, f"{name}[{i}]")
    else:
        yield SpacePart(name, shown)


def _is_image(part: spaces.Space, dimensions: tuple[int, ...], observations: Observations) -> bool:
    if not isinstance(part, spaces.Box) or len(part.shape) not in dimensions or not np.prod(part.shape):
        return False
    picture = picture_of(part, observations)
    return min(picture.height, picture.width) >= SMALLEST
