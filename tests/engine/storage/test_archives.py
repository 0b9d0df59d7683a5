"""Zip, npy and gzip files of other people: their sizes, which may be false, are checked before they are unpacked."""

import gzip
import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from supple.engine.storage import archives


def zipped(content: bytes = b"abc", name: str = "a", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        archive.writestr(name, content)
        archive.writestr("b", b"other")
    return data.getvalue()


def with_size(content: bytes, size: int) -> bytes:
    """Write another size for the first member into the directory of a zip."""
    at = content.index(b"PK\x01\x02")
    return content[: at + 24] + size.to_bytes(4, "little") + content[at + 28 :]


LARGE = bytes(2 * archives.FLOOR)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "truncated, or no zip at all"),
        (zipped()[:-5], "truncated, or no zip at all"),
        (zipped(name="c"), "it has no a"),
        (zipped().replace(b"b", b"a"), "it has two a"),
        (zipped(LARGE), "it would unpack to 33,554,432 bytes"),
        (with_size(zipped(LARGE), 100), "damaged"),
        (with_size(zipped(), 2**31), "it would unpack to"),
        (zipped(method=zipfile.ZIP_LZMA), "another method than deflate"),
    ],
)
def test_bad_members_of_a_zip_are_refused(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    for file in (content, tmp_path / "x.zip"):
        with pytest.raises(archives.BadArchive, match=words):
            archives.read_member(file, "a")
    assert archives.read_member(zipped(), "a") == b"abc"


def test_a_zip_that_other_code_unpacks_has_a_limit_on_its_total_size() -> None:
    archives.check_zip(zipped())
    with pytest.raises(archives.BadArchive, match="unpack to"):
        archives.check_zip(zipped(LARGE))


def npy(value: np.ndarray, shape: str | None = None) -> bytes:
    data = io.BytesIO()
    np.save(data, value, allow_pickle=True)
    if shape is None:
        return data.getvalue()
    head = f"{{'descr': '{value.dtype.str}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + value.tobytes()


def test_arrays_are_read_only_if_their_header_fits_the_data() -> None:
    numbers = np.arange(6.0).reshape(2, 3)
    for right in (numbers, np.asfortranarray(numbers), np.zeros((0, 4)), np.array(3)):
        found = archives.parse_array(npy(right))
        assert found.dtype == right.dtype
        assert np.array_equal(found, right)
    for wrong, words in (
        (npy(np.array([None], object)), "objects"),
        (npy(numbers, "(1000000000000, 3)"), "header says"),
        (npy(numbers, "(-2, -3)"), "header says"),
        (npy(numbers, "print('x')"), "damaged header"),
        (b"", "damaged header"),
    ):
        with pytest.raises(archives.BadArchive, match=words):
            archives.parse_array(wrong)


def test_gzip_must_be_complete_and_below_the_limit() -> None:
    assert archives.gunzip(gzip.compress(b"abc") + gzip.compress(b"def") + b"\0\0") == b"abcdef"
    for wrong in (
        b"",
        b"text",
        gzip.compress(b"a" * 100)[:-9],
        gzip.compress(b"a" * 100)[:-3],
        gzip.compress(b"") + b"x",
    ):
        with pytest.raises(archives.BadArchive, match="truncated or damaged gzip"):
            archives.gunzip(wrong)
    with pytest.raises(archives.BadArchive, match="unpacks to more than"):
        archives.gunzip(gzip.compress(LARGE))


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "loop", "nothing"])
def test_only_plain_files_are_opened(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind != "nothing":
        place.symlink_to("/dev/zero" if kind == "device" else "x")
    with pytest.raises(OSError, match=r"plain|No such|many levels|directory"):
        archives.read_user_file(place)
