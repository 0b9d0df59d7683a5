"""Moving pictures for the page of a report: frames in, one animated image inside the HTML out."""

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

WIDTH = 200  # pixels
MOST_FRAMES = 200
MOST_BYTES = 1_000_000
SECONDS_PER_FRAME = 0.05

Frame = NDArray[np.uint8]


def data_uri(frames: Sequence[Frame]) -> str:
    """Return frames as an animated WebP image in a data URI. The same frames give the same text.

    At most `MOST_FRAMES` frames are shown, evenly spaced, with the first and the last. The picture is made smaller
    until it has at most `MOST_BYTES` bytes.

    Args:
        frames: RGB images of one size, (height, width, 3).

    Raises:
        ValueError: There are no frames.
    """
    if not frames:
        raise ValueError("an animation needs one frame or more, got none")
    chosen = np.linspace(0, len(frames) - 1, min(len(frames), MOST_FRAMES)).round().astype(int)
    shown = [frames[index] for index in chosen]
    width = min(WIDTH, shown[0].shape[1])
    while len(body := _webp(shown, width)) > MOST_BYTES and width > 1:
        width = max(1, width * 3 // 4)
    return "data:image/webp;base64," + base64.b64encode(body).decode("ascii")


def _webp(frames: Sequence[Frame], width: int) -> bytes:
    height = max(1, round(frames[0].shape[0] * width / frames[0].shape[1]))
    first, *others = [Image.fromarray(frame).resize((width, height), Image.Resampling.BOX) for frame in frames]
    stream = io.BytesIO()
    first.save(
        stream,
        "WEBP",
        save_all=True,
        append_images=others,
        duration=round(1000 * SECONDS_PER_FRAME),
        loop=0,
        quality=60,
    )
    return stream.getvalue()
