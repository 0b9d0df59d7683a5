"""Image folders: both layouts, decoded once, and every kind of damage refused in one line that names the file."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from supple.tracks.vision.data import decode, load
from tests.tracks.logs import refusal

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def picture(file: Path, height: int = 6, width: int = 4) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RNG.integers(0, 256, (height, width, 3), np.uint8)).save(file)


def pixels(file: Path) -> np.ndarray:
    """(3, height, width)"""
    with Image.open(file) as image:
        return np.asarray(image).transpose(2, 0, 1)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """train/ and test/ with classes ant, bee: PNG files, which keep every bit."""
    for path in ("train/bee/0.png", "train/ant/0.png", "train/ant/1.PNG", "test/ant/0.png", "test/bee/0.png"):
        picture(tmp_path / "plain" / path)
    return tmp_path / "plain"


def test_classes_and_files_come_in_the_order_of_their_names(plain: Path):
    data = load("folder", plain)
    wanted = [pixels(plain / "train" / path) for path in ("ant/0.png", "ant/1.PNG", "bee/0.png")]
    assert np.array_equal(data.train_images, wanted)
    assert np.array_equal(data.test_images[1], pixels(plain / "test/bee/0.png"))
    assert (data.train_labels.tolist(), data.test_labels.tolist()) == ([0, 0, 1], [0, 1])
    assert data.train_labels.dtype == torch.int64
    assert data.source == f"folder, image folders, in {plain}: 3 + 2 images, 3×6×4, 2 classes"


def test_tiny_imagenet_is_read_as_it_is_published(tmp_path: Path):
    root = tmp_path / "tiny-imagenet-200"
    for own in ("n02", "n01"):
        for number in range(2):
            picture(root / "train" / own / "images" / f"{own}_{number}.JPEG", 64, 64)
        (root / "train" / own / f"{own}_boxes.txt").write_text("")
    for number in range(3):
        picture(root / "val/images" / f"val_{number}.JPEG", 64, 64)
    picture(root / "test/images/test_0.JPEG", 64, 64)  # published without labels, and left alone
    annotations = root / "val/val_annotations.txt"
    annotations.write_text("val_2.JPEG\tn02\t0\t0\t5\t5\nval_0.JPEG\tn01\t0\t0\t5\t5\n")
    data = load("tiny-imagenet", tmp_path)
    assert (data.image_shape, data.num_classes) == ((3, 64, 64), 2)
    assert (data.train_labels.tolist(), data.test_labels.tolist()) == ([0, 0, 1, 1], [1, 0])
    assert np.array_equal(data.test_images[0], pixels(root / "val/images/val_2.JPEG"))
    for text, words in (
        ("val_2.JPEG\tn02\nval_0.JPEG\tn03\n", "line 2: expected an image and one of train/'s classes"),
        ("val_7.JPEG\tn02\n", "val_7.JPEG is missing: val_annotations.txt names it"),
        ("", "val_annotations.txt: empty"),
    ):
        annotations.write_text(text)
        assert words in refusal(load, "tiny-imagenet", tmp_path)


def test_grey_images_become_rgb_and_val_serves_as_test(tmp_path: Path):
    for split in ("train", "val"):
        (tmp_path / split / "x").mkdir(parents=True)
        Image.new("L", (5, 3), 77).save(tmp_path / split / "x/0.jpg")
    data = load("imagenet-32", tmp_path)
    assert data.test_images.shape == (1, 3, 3, 5)
    assert data.train_images.unique().tolist() == [77]


def test_images_are_decoded_once_and_again_when_a_file_changes(
    plain: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    first = load("folder", plain)
    (kept,) = (cache / "decoded").iterdir()
    decoded = Mock(wraps=Image.open)
    monkeypatch.setattr(Image, "open", decoded)
    again = load("folder", plain)
    assert decoded.call_count == 0
    assert torch.equal(again.train_images, first.train_images)
    assert torch.equal(again.test_labels, first.test_labels)

    cut(kept / decode.IMAGES)  # no longer whole: decoded anew
    assert torch.equal(load("folder", plain).test_images, first.test_images)
    assert decoded.call_count == 5

    os.utime(plain / "test/ant/0.png", ns=(0, 0))
    load("folder", plain)
    assert decoded.call_count == 10


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: cut(f / "test/bee/0.png"), "test/bee/0.png: no image that can be read ("),
        (lambda f: (f / "test/bee/0.png").write_text("<html>"), "(UnidentifiedImageError: cannot identify"),
        (lambda f: picture(f / "train/bee/0.png", 6, 5), "train/bee/0.png: 6×5 pixels, expected 6×4"),
        (lambda f: (f / "train/bee/0.png").rename(f / "train/bee/0.txt"), "train/bee: an empty class folder"),
        (lambda f: picture(f / "train/cow/0.png"), "test/cow: train/ and test/ must hold the same classes"),
        (lambda f: (f / "test").rename(f / "tset"), "no folder test/ or val/ there: expected train/<class>/*.JPEG"),
        (lambda f: (f / "train").rename(f / "trian"), "no folder train/ there: expected train/<class>/*.JPEG"),
        (lambda f: shutil.rmtree(f / "train") or (f / "train").mkdir(), "train: no class folders there"),
    ],
)
def test_a_damaged_image_is_named_and_not_cached(plain: Path, cache: Path, damage: Callable[[Path], Any], words: str):
    damage(plain)
    assert words in refusal(load, "folder", plain)
    assert not (cache / "decoded").exists()


def test_a_full_disk_leaves_no_partly_decoded_data_set(plain: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    def full(tensors: dict[str, torch.Tensor], file: Path) -> None:
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(decode, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        load("folder", plain)
    assert list((cache / "decoded").iterdir()) == []
