"""Videos for the page of a report: the pictures of an episode in, one animated image in a data URI out."""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 240  # pixels, of the longer side
MOST_PICTURES = 200
MOST_BYTES = 1_000_000
MILLISECONDS = 50  # per picture


@dataclass(frozen=True)
class Video:
    """An animation on the page. source: a data URI. title: the line that opens it. caption: also its alt text."""

    source: str
    title: str
    caption: str


class Pictures:
    """At most `MOST_PICTURES` evenly spaced pictures of an episode of unknown length, so that they fit into memory.

    The first picture is always kept. Whenever there are too many, every second one is dropped.
    """

    def __init__(self) -> None:
        self.kept: list[Image.Image] = []
        self._every, self._offered = 1, 0

    def offer(self, draw: Callable[[], NDArray[np.uint8]]) -> None:
        """Keep a picture of this step if it is due. Only then `draw` is called, which returns (height, width, 3)."""
        if self._offered % self._every == 0:
            picture = Image.fromarray(draw())
            picture.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
            self.kept.append(picture)
            if len(self.kept) > MOST_PICTURES:
                self.kept, self._every = self.kept[::2], 2 * self._every
        self._offered += 1


def data_uri(pictures: Sequence[Image.Image]) -> str:
    """Return pictures of one size as an animated WebP image in a data URI. The same pictures give the same text.

    The image is made smaller until it has at most `MOST_BYTES` bytes.
    """
    while len(body := _webp(pictures)) > MOST_BYTES:
        width, height = (max(1, side * 3 // 4) for side in pictures[0].size)
        pictures = [picture.resize((width, height), Image.Resampling.BOX) for picture in pictures]
    return "data:image/webp;base64," + base64.b64encode(body).decode("ascii")


def _webp(pictures: Sequence[Image.Image]) -> bytes:
    stream = io.BytesIO()
    first, *others = pictures
    first.save(stream, "WEBP", save_all=True, append_images=others, duration=MILLISECONDS, loop=0, quality=60)
    return stream.getvalue()
