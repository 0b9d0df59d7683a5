"""CIFAR's binary files and ImageNet-32's npz files: read exactly; each kind of damage is one line that names it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from supple.registry.errors import UsageError
from supple.tracks.vision.data import cifar, imagenet32, load

RNG = np.random.default_rng(0)


def refusal(name: str, folder: Path) -> str:
    with pytest.raises(UsageError) as error:
        load(name, folder)
    assert "\n" not in str(error.value)
    return str(error.value)


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
    for channel in range(3):  # red, green and blue one after the other, each row by row
        own = rows[:, 1 + 1024 * channel : 1 + 1024 * (channel + 1)]
        assert np.array_equal(data.train_images[:, channel].flatten(1), own)
    assert np.array_equal(data.test_images.flatten(1), small_cifar["cifar-10/test_batch.bin"][:, 1:])
    inner = tmp_path / "cifar-10-batches-bin"
    assert load("cifar-10", inner).source == (
        f"cifar-10, binary version, in {inner}: 15 + 2 images, 3×32×32, 10 classes"
    )


def test_cifar_100_has_the_fine_labels(tmp_path: Path, small_cifar: dict[str, np.ndarray]):
    data = load("cifar-100", tmp_path)
    assert data.num_classes == 100
    assert np.array_equal(data.train_labels, small_cifar["cifar-100/train.bin"][:, 1])
    assert np.array_equal(data.train_images.flatten(1), small_cifar["cifar-100/train.bin"][:, 2:])


def test_cifar_has_its_published_size(tmp_path: Path):
    for name, total in (("cifar-10", 50_000), ("cifar-100", 50_000)):
        layout = cifar.LAYOUTS[name]
        assert (sum(layout.train.values()), sum(layout.test.values())) == (total, 10_000)
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(bytes(3073 * 10))
    assert refusal("cifar-10", tmp_path) == (
        f"{tmp_path}/data_batch_1.bin: expected 30,730,000 bytes (10,000 images), found 30,730"
    )


def test_broken_cifar_files_are_named(tmp_path: Path, small_cifar: dict[str, np.ndarray]):
    file = tmp_path / "cifar-10-batches-bin/data_batch_4.bin"
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    assert refusal("cifar-10", tmp_path) == f"{file}: expected 9,219 bytes (3 images), found 9,218"
    file.write_bytes(content[:3073] + b"\x0a" + content[3074:])
    assert refusal("cifar-10", tmp_path) == f"{file}: row 1 (the first is 0) has label 10, expected 0 … 9"
    file.rename(file.with_name("data_batch_4"))  # as in the version that is pickle
    assert refusal("cifar-10", tmp_path) == (
        f"{file} is missing: let --data name the folder that cifar-10-binary.tar.gz unpacks to"
    )
    file = tmp_path / "cifar-100-binary/test.bin"
    content = file.read_bytes()
    file.write_bytes(content[:1] + b"\x64" + content[2:])
    assert refusal("cifar-100", tmp_path) == f"{file}: row 0 (the first is 0) has label 100, expected 0 … 99"


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


def test_broken_npz_files_are_named(npz: Path):
    file = npz / "train_data_batch_7.npz"
    whole, images = file.read_bytes(), np.load(file)["data"]
    count = len(images)
    file.write_bytes(whole[:-100])
    assert refusal("imagenet-32", npz).startswith(f"{file}: array 'labels' cannot be read")
    damaged = bytearray(whole)
    damaged[2000] ^= 255
    file.write_bytes(damaged)
    assert refusal("imagenet-32", npz).startswith(f"{file}: array 'data' cannot be read")
    for labels, words in (
        (np.full(count, 1001), "row 0 (the first is 0) has label 1001, expected 1 … 1000"),
        (np.full(count, 0), "has label 0, expected 1 … 1000"),
        (np.full(count, 0.5), f"'labels' is ({count},) float64, expected one integer for each image"),
        (
            np.full(count, None),
            "array 'labels' cannot be read: Object arrays cannot be loaded",
        ),
        (np.ones(count + 1, int), f"'data' is ({count}, 3072) uint8, expected ({count + 1}, 3072) uint8"),
    ):
        np.savez(file, data=images, labels=labels)
        refused = refusal("imagenet-32", npz)
        assert refused.startswith(f"{file}: ")
        assert words in refused
    np.savez(file, data=images[:, :768], labels=np.ones(count, int))
    assert f"'data' is ({count}, 768) uint8, expected ({count}, 3072) uint8" in refusal("imagenet-32", npz)
    np.savez(file, images=images, labels=np.ones(count, int))
    assert refusal("imagenet-32", npz) == f"{file}: array 'data' cannot be read: 'data is not a file in the archive'"
    file.unlink()
    assert f"{file} is missing: --data needs a folder with train_data_batch_1.npz" in refusal("imagenet-32", npz)
