"""MNIST's files: read exactly, plain or compressed, and refused in one line when one of them is broken."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from supple.tracks.vision.data import idx, load
from tests.tracks.logs import idx_file, refusal, write_idx

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 28, 28), np.uint8)
LABELS = np.array([3, 1, 9, 0, 0, 5, 7], np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, rows in (("train", slice(0, 5)), ("t10k", slice(5, 7))):
        write_idx(tmp_path, split, IMAGES[rows], LABELS[rows])
    return tmp_path


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
    words = f"in {folder}: 5 + 2 images, 1×28×28, 10 classes"
    assert load("mnist", folder).source == f"files other than the published mnist, {words}"
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    monkeypatch.setitem(idx.PUBLISHED, "mnist", sums)
    assert load("mnist", folder).source == f"mnist, the published files, {words}"


def test_without_a_folder_the_cache_is_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    assert "cache/mnist: no such folder: `supple fetch mnist` fills it" in refusal(load, "mnist")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/mnist").symlink_to(folder)
    assert len(load("mnist").train_labels) == 5


ZIPPED = gzip.compress(idx_file(IMAGES[:5]))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t10k-labels-idx1-ubyte", None, "labels-idx1-ubyte is missing: `supple fetch mnist` downloads it"),
        ("train-images-idx3-ubyte", idx_file(LABELS), "no IDX file of uint8 with 3 axes"),
        ("train-images-idx3-ubyte", idx_file(IMAGES[:5])[:-1], "expected 3,936 bytes uncompressed, found 3,935"),
        ("train-images-idx3-ubyte.gz", ZIPPED[: len(ZIPPED) // 2], "truncated or damaged gzip"),
        ("train-images-idx3-ubyte.gz", b"<html>", "truncated or damaged gzip"),
        ("train-images-idx3-ubyte.gz", ZIPPED[:40] + bytes(40) + ZIPPED[80:], "truncated or damaged gzip"),
        ("train-labels-idx1-ubyte", idx_file(np.array([3, 1, 10, 0, 200], np.uint8)), "row 2 (the first is 0)"),
        ("train-labels-idx1-ubyte", idx_file(LABELS), "7 labels, for 5 images"),
        ("t10k-images-idx3-ubyte", idx_file(IMAGES[5:, :20]), "test images are 20×28, those for training 28×28"),
    ],
)
def test_a_broken_file_is_refused_by_name(folder: Path, name: str, content: bytes | None, words: str):
    (folder / name.removesuffix(".gz")).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    refused = refusal(load, "mnist", folder)
    assert words in refused
    assert refused.startswith(str(folder))


def test_an_unknown_name_is_answered_with_the_nearest():
    assert "unknown data set 'cifar10': did you mean 'cifar-10'" in refusal(load, "cifar10")
    assert "'folder' needs --data" in refusal(load, "folder")
