"""MNIST's files: read exactly, plain or compressed, and refused in one line when one of them is broken."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from supple.registry.errors import UsageError
from supple.tracks.vision.data import idx, load

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 28, 28), np.uint8)
LABELS = np.array([3, 1, 9, 0, 0, 5, 7], np.uint8)


def idx_file(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, rows in (("train", slice(0, 5)), ("t10k", slice(5, 7))):
        (tmp_path / f"{split}-images-idx3-ubyte").write_bytes(idx_file(IMAGES[rows]))
        (tmp_path / f"{split}-labels-idx1-ubyte").write_bytes(idx_file(LABELS[rows]))
    return tmp_path


def refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as error:
        load("mnist", folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_every_pixel_and_label_is_where_the_file_has_it(folder: Path):
    data = load("mnist", folder)
    assert (data.name, data.num_classes, data.image_shape) == ("mnist", 10, (1, 28, 28))
    assert (data.train_images.dtype, data.train_labels.dtype) == (torch.uint8, torch.int64)
    assert torch.equal(data.train_images, torch.tensor(IMAGES[:5, None]))
    assert torch.equal(data.test_images, torch.tensor(IMAGES[5:, None]))
    assert data.train_labels.tolist() == [3, 1, 9, 0, 0]
    assert data.test_labels.tolist() == [5, 7]


def test_compressed_files_are_the_same_data(folder: Path):
    plain = load("fashion-mnist", str(folder))
    for file in list(folder.iterdir()):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    compressed = load("fashion-mnist", folder)
    assert torch.equal(compressed.train_images, plain.train_images)
    assert torch.equal(compressed.test_labels, plain.test_labels)


def test_the_source_tells_the_published_files_from_others(folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert load("mnist", folder).source == (
        f"files other than the published mnist, in {folder}: 5 + 2 images, 1×28×28, 10 classes"
    )
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    monkeypatch.setitem(idx.PUBLISHED, "mnist", sums)
    assert load("mnist", folder).source.startswith(f"mnist, the published files, in {folder}: 5 + 2 images")


def test_without_a_folder_the_cache_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UsageError, match=r"cache/mnist: no such folder: `supple fetch mnist` fills it"):
        load("mnist")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/mnist").symlink_to(folder)
    assert len(load("mnist").train_labels) == 5


def test_a_missing_file_is_named_with_what_helps(folder: Path):
    (folder / "t10k-labels-idx1-ubyte").unlink()
    assert refusal(folder) == (
        f"{folder}/t10k-labels-idx1-ubyte is missing: `supple fetch mnist` downloads it (plain or .gz), "
        "or let --data name its folder"
    )


def test_a_wrong_magic_number_is_shown(folder: Path):
    file = folder / "train-images-idx3-ubyte"
    file.write_bytes(idx_file(LABELS))
    assert refusal(folder) == (f"{file} is no IDX file of uint8 with 3 axes: it does not start with 00000803")
    file.write_bytes(b"")
    assert "does not start with" in refusal(folder)


@pytest.mark.parametrize("change", [-1, 1, -(5 * 28 * 28 + 5)])
def test_a_file_that_is_too_short_or_too_long_is_refused_with_both_sizes(folder: Path, change: int):
    file = folder / "train-images-idx3-ubyte"
    content = file.read_bytes()
    file.write_bytes(content[:change] if change < 0 else content + bytes(change))
    refused = refusal(folder)
    assert refused.startswith(f"{file}: expected ")
    assert refused.endswith(f"found {len(content) + change:,}")


def test_truncated_gzip_is_refused(folder: Path):
    file = folder / "train-images-idx3-ubyte"
    compressed = gzip.compress(file.read_bytes())
    file.unlink()
    for broken in (compressed[: len(compressed) // 2], b"<html>", compressed[:40] + bytes(40) + compressed[80:]):
        file.with_name(f"{file.name}.gz").write_bytes(broken)
        assert "train-images-idx3-ubyte.gz: truncated or damaged gzip" in refusal(folder)


def test_a_label_out_of_range_is_named_by_its_row(folder: Path):
    file = folder / "train-labels-idx1-ubyte"
    file.write_bytes(idx_file(np.array([3, 1, 10, 0, 200], np.uint8)))
    assert refusal(folder) == f"{file}: row 2 (the first is 0) has label 10, expected 0 … 9"


def test_images_and_labels_must_be_equally_many_and_of_one_size(folder: Path):
    (folder / "train-labels-idx1-ubyte").write_bytes(idx_file(LABELS))
    assert refusal(folder) == f"{folder}/train-labels-idx1-ubyte: 7 labels, for 5 images"
    (folder / "train-labels-idx1-ubyte").write_bytes(idx_file(LABELS[:5]))
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx_file(IMAGES[5:, :20]))
    assert refusal(folder) == f"{folder}: the test images are 20×28, those for training 28×28"


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="unknown data set 'cifar10': did you mean 'cifar-10'"):
        load("cifar10")
    with pytest.raises(UsageError, match="'folder' needs --data"):
        load("folder")
