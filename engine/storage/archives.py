"""Zip, npy and gzip files of other people: sizes are looked at before anything is unpacked, and may lie.

A file of 3 MB can unpack to 3 GB. Weights, images and texts shrink to a tenth at most, so a file which says that it
unpacks to more than `unpacked_limit` is refused, and never more is read than it said. Nothing is written to the disk,
and no pickle is opened.
"""

import io
import math
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import cast

import numpy as np

from ...registry import one_line
from . import files

TIMES, FLOOR = 20, 2**24  # what unpacks to more than 20 times its size, and to more than 16 MiB, is refused
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others unpack a few kilobytes to any number of megabytes
CHUNK = 2**20


class BadArchive(ValueError):
    """A file is damaged, or unpacks to more than it may; the message is one line without the file's name."""


def unpacked_limit(size: int) -> int:
    """Return the number of bytes to which a packed file of this size may unpack."""
    return max(FLOOR, TIMES * size)


def open_user_file(file: Path) -> BufferedReader:
    """Open a file that the user names, perhaps by a link, for reading. Raises OSError, also for pipes and devices."""
    return cast(BufferedReader, files.open_plain(Path(os.path.realpath(file, strict=True)), "rb"))


def read_user_file(file: Path) -> bytes:
    """Return the contents of a file that the user names. Raises OSError, also for pipes and devices."""
    with open_user_file(file) as stream:
        return stream.read()


def read_member(file: Path | bytes, name: str, most: int | None = None) -> bytes:
    """Return one file in a zip.

    Args:
        file: The zip, as a file or as its bytes.
        name: Name of the file in it.
        most: The largest size that is allowed, in bytes, besides `unpacked_limit` of the size of the zip.

    Raises:
        BadArchive: There is no such file in it, or there are two; it is damaged, encrypted, or too large.
        OSError: The zip cannot be read.
    """
    with _open_zip(file) as (archive, size):
        members = [info for info in archive.infolist() if info.filename == name]
        if len(members) != 1:
            raise BadArchive(f"it has {'two' if members else 'no'} {name}")
        _check(members, min(unpacked_limit(size), most or unpacked_limit(size)))
        with archive.open(members[0]) as packed:
            return packed.read(members[0].file_size)  # read() would unpack all that there is, and cut it then


def check_zip(file: Path | bytes) -> None:
    """Raise BadArchive if a zip, all in all, unpacks to too much, so that other code can read it."""
    with _open_zip(file) as (archive, size):
        _check(archive.infolist(), unpacked_limit(size))


@contextmanager
def _open_zip(file: Path | bytes) -> Iterator[tuple[zipfile.ZipFile, int]]:
    """Return a zip and its size. What goes wrong in this block becomes BadArchive."""
    with io.BytesIO(file) if isinstance(file, bytes) else open_user_file(file) as stream:
        size = stream.seek(0, os.SEEK_END)
        try:
            if not zipfile.is_zipfile(stream):
                raise BadArchive(f"truncated, or no zip at all ({size:,} bytes)")
            with zipfile.ZipFile(stream) as archive:
                yield archive, size
        except (BadArchive, MemoryError):
            raise
        except Exception as error:  # zipfile raises many
            raise BadArchive(f"damaged ({one_line(error)})") from error


def _check(members: list[zipfile.ZipInfo], most: int) -> None:
    for info in members:
        if info.flag_bits & 1:
            raise BadArchive(f"{info.filename} is encrypted")
        if info.compress_type not in METHODS:
            raise BadArchive(f"{info.filename} is packed by another method than deflate")
    if (total := sum(info.file_size for info in members)) > most:
        raise BadArchive(f"it would unpack to {total:,} bytes, but at most {most:,} are read")


def read_array(file: Path, key: str, most: int | None = None) -> np.ndarray:
    """Return an array of an npz file. Raises BadArchive as `read_member`, and for arrays of objects."""
    return parse_array(read_member(file, f"{key}.npy", most))


def parse_array(content: bytes) -> np.ndarray:
    """Return the array in the bytes of an npy file, without a copy; it cannot be written into.

    Raises:
        BadArchive: The header is damaged, describes objects, which would be pickled, or another number of bytes than
            there are.
    """
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if read is None:
            raise BadArchive(f"an npy file of version {version}, which is not read")
        shape, in_columns, dtype = read(stream)
    except BadArchive:
        raise
    except Exception as error:  # its header is Python's text, of which anything may be wrong
        raise BadArchive(f"damaged header ({one_line(error)})") from error
    if dtype.hasobject:
        raise BadArchive("an array of objects, which cannot be read without pickle")
    start, wanted = stream.tell(), math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or len(content) - start != wanted:
        raise BadArchive(f"its header says {wanted:,} bytes, but there are {len(content) - start:,}")
    if not wanted:
        return np.empty(shape, dtype)
    flat = np.frombuffer(content, dtype, offset=start)
    return flat.reshape(shape, order="F" if in_columns else "C")


def gunzip(content: bytes, most: int | None = None) -> bytes:
    """Return what gzip packed. `most`: as for `read_member`. Raises BadArchive if it is damaged or too large."""
    limit = min(unpacked_limit(len(content)), most or unpacked_limit(len(content)))
    parts, remaining, total = [], content, 0
    try:
        while remaining:  # a gzip file may consist of several
            unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
            while not unpacker.eof:
                part = unpacker.decompress(remaining, CHUNK)
                remaining = unpacker.unconsumed_tail
                total += len(part)
                if total > limit:
                    raise BadArchive(f"it unpacks to more than {limit:,} bytes")
                if not (part or remaining or unpacker.eof):
                    raise BadArchive("truncated or damaged gzip (it ends early)")
                parts.append(part)
            remaining = unpacker.unused_data.lstrip(b"\0")  # which may follow as padding
    except zlib.error as error:
        raise BadArchive(f"truncated or damaged gzip ({error})") from error
    if not parts:
        raise BadArchive("truncated or damaged gzip (it is empty)")
    return b"".join(parts)
