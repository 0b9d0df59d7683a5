"""Videos for a page: few, evenly spaced, small pictures."""

import base64
import io
from functools import partial

import numpy as np
import pytest
from PIL import Image

from supple.reports.figures import video
from supple.reports.figures.video import MOST_PICTURES, SIDE, Pictures, data_uri


def grey(value: int, height: int = 4, width: int = 6) -> np.ndarray:
    return np.full((height, width, 3), value, np.uint8)


def noise(pictures: int, side: int = 64) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)) for _ in range(pictures)]


def opened(text: str) -> Image.Image:
    prefix = "data:image/webp;base64,"
    assert text.startswith(prefix)
    return Image.open(io.BytesIO(base64.b64decode(text.removeprefix(prefix))))


@pytest.mark.parametrize("steps", [1, MOST_PICTURES, MOST_PICTURES + 1, 2 * MOST_PICTURES + 7, 5 * MOST_PICTURES])
def test_few_evenly_spaced_pictures_are_kept(steps: int) -> None:
    pictures = Pictures()
    drawn: list[int] = []

    def draw(step: int) -> np.ndarray:
        drawn.append(step)
        return np.array([[[step // 256, step % 256, 0]]], np.uint8)

    for step in range(steps):
        pictures.offer(partial(draw, step))
    assert len(pictures.kept) <= min(steps, MOST_PICTURES)
    kept = [256 * high + low for high, low, _ in (picture.getpixel((0, 0)) for picture in pictures.kept)]
    every = kept[1] if len(kept) > 1 else 1
    assert kept == list(range(0, steps, every))
    assert set(kept) <= set(drawn)
    assert len(drawn) <= MOST_PICTURES + 1 + (every.bit_length() - 1) * MOST_PICTURES // 2


@pytest.mark.parametrize(("height", "width", "size"), [(400, 600, (SIDE, 160)), (210, 160, (160, 210))])
def test_large_pictures_are_made_smaller_in_their_proportions(height: int, width: int, size: tuple[int, int]) -> None:
    pictures = Pictures()
    pictures.offer(lambda: grey(7, height, width))
    assert pictures.kept[0].size == size


def test_the_animation_has_all_pictures() -> None:
    image = opened(data_uri(noise(5)))
    assert (image.format, image.n_frames, image.size) == ("WEBP", 5, (64, 64))


def test_an_animation_with_too_many_bytes_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = data_uri(noise(3))
    monkeypatch.setattr(video, "MOST_BYTES", 3000)
    smaller = data_uri(noise(3))
    assert len(base64.b64decode(smaller.partition(",")[2])) <= 3000 < len(whole)
    assert opened(smaller).size < (64, 64)


def test_the_same_pictures_give_the_same_text() -> None:
    assert data_uri(noise(3)) == data_uri(noise(3))
