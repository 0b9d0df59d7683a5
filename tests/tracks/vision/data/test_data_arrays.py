"""CIFAR's binary files and ImageNet-32's npz files: read exactly; each kind of damage is one line that names it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from supple.tracks.vision.data import cifar, imagenet32, load
from tests.tracks.logs import refusal

RNG = np.random.default_rng(0)


@pytest.fixture
def small_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Both CIFARs with two or three images a file; returns each file's rows."""
    rows = {}
    for name, labels in (("cifar-10", [10]), ("cifar-100", [20, 100])):
        layout = cifar.LAYOUTS[name]
        layout = replace(layout, train=dict.fromkeys(layout.train, 3), test=dict.fromkeys(layout.test, 2))
        monkeypatch.setitem(cifar.LAYOUTS, name, layout)
        (tmp_path / layout.folder).mkdir()
        for path, count in {**layout.train, **layout.test}.items():
            content = RNG.integers(0, 256, (count, len(labels) + 3072), np.uint8)
            content[:, : len(labels)] = RNG.integers(0, labels, (count, len(labels)))
            content.tofile(tmp_path / layout.folder / path)
            rows[f"{name}/{path}"] = content
    return rows


def test_cifar_10_is_its_five_files_in_order(tmp_path: Path, small_cifar: dict[str, np.ndarray]):
    data = load("cifar-10", tmp_path)
    rows = np.concatenate([small_cifar[f"cifar-10/data_batch_{number}.bin"] for number in range(1, 6)])
    assert data.train_images.shape == (15, 3, 32, 32)
    assert (data.train_images.dtype, data.train_labels.dtype) == (torch.uint8, torch.int64)
    assert np.array_equal(data.train_labels, rows[:, 0])
    assert np.array_equal(data.train_images.flatten(1), rows[:, 1:])  # red, green and blue, each row by row
    assert np.array_equal(data.test_images.flatten(1), small_cifar["cifar-10/test_batch.bin"][:, 1:])
    inner = tmp_path / "cifar-10-batches-bin"
    words = f"cifar-10, binary version, in {inner}: 15 + 2 images, 3×32×32, 10 classes"
    assert load("cifar-10", inner).source == words


def test_cifar_100_has_the_fine_labels(tmp_path: Path, small_cifar: dict[str, np.ndarray]):
    data, rows = load("cifar-100", tmp_path), small_cifar["cifar-100/train.bin"]
    assert data.num_classes == 100
    assert np.array_equal(data.train_labels, rows[:, 1])
    assert np.array_equal(data.train_images.flatten(1), rows[:, 2:])


def test_cifar_has_its_published_size():
    for layout in cifar.LAYOUTS.values():
        assert (sum(layout.train.values()), sum(layout.test.values())) == (50_000, 10_000)


def damage(file: Path, change: Callable[[bytes], bytes] | None) -> None:
    """Change a file's content, or remove it."""
    content = file.read_bytes()
    file.unlink()
    if change:
        file.write_bytes(change(content))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda old: old[:-1], "expected 9,219 bytes (3 images), found 9,218"),
        (lambda old: old[:3073] + b"\x0a" + old[3074:], "row 1 (the first is 0) has label 10, expected 0 … 9"),
        (None, "missing: let --data name the folder that cifar-10-binary"),
    ],
)
@pytest.mark.usefixtures("small_cifar")
def test_broken_cifar_files_are_named(tmp_path: Path, change: Callable[[bytes], bytes] | None, words: str):
    damage(file := tmp_path / "cifar-10-batches-bin/data_batch_4.bin", change)
    refused = refusal(load, "cifar-10", tmp_path)
    assert words in refused
    assert refused.startswith(str(file))


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    for number, name in enumerate([*imagenet32.TRAIN, *imagenet32.TEST]):
        images = RNG.integers(0, 256, (2 + number % 2, 3072), np.uint8)
        np.savez(tmp_path / name, data=images, labels=RNG.integers(1, 1001, len(images)), mean=np.zeros(3072))
    return tmp_path


def test_imagenet_32_is_its_ten_files_in_order_with_labels_from_zero(npz: Path):
    data = load("imagenet-32", npz)
    parts = [np.load(npz / name) for name in imagenet32.TRAIN]
    assert np.array_equal(data.train_images.flatten(1), np.concatenate([part["data"] for part in parts]))
    assert np.array_equal(data.train_labels, np.concatenate([part["labels"] for part in parts]) - 1)
    assert np.array_equal(data.test_images.flatten(1), np.load(npz / "val_data.npz")["data"])
    assert (data.num_classes, data.image_shape, data.train_labels.dtype) == (1000, (3, 32, 32), torch.int64)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"labels": np.full(2, 1001)}, "row 0 (the first is 0) has label 1001, expected 1 … 1000"),
        ({"labels": np.full(2, 0.5)}, "'labels' is (2,) float64, expected one integer for each image"),
        ({"labels": np.full(2, None)}, "array 'labels' cannot be read: Object arrays cannot be loaded"),
        ({"labels": np.ones(3, int)}, "'data' is (2, 3072) uint8, expected (3, 3072) uint8"),
    ],
)
def test_npz_files_with_other_arrays_are_named(npz: Path, arrays: dict[str, np.ndarray], words: str):
    file = npz / "train_data_batch_7.npz"
    np.savez(file, **{"data": np.zeros((2, 3072), np.uint8), "labels": np.ones(2, int), **arrays})
    refused = refusal(load, "imagenet-32", npz)
    assert refused.startswith(f"{file}: ")
    assert words in refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda old: old[:-100], "array 'labels' cannot be read"),
        (lambda old: old[:2000] + bytes([old[2000] ^ 255]) + old[2001:], "array 'data' cannot be read"),
        (None, "is missing: --data needs a folder with train_data_batch_1.npz"),
    ],
)
def test_broken_npz_files_are_named(npz: Path, change: Callable[[bytes], bytes] | None, words: str):
    damage(file := npz / "train_data_batch_7.npz", change)
    refused = refusal(load, "imagenet-32", npz)
    assert words in refused
    assert str(file) in refused
