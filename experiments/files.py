"""What checkpoints need of the file system: sums, links, and bytes that are on the disk."""

import hashlib
import os
import shutil
from pathlib import Path

from .errors import CheckpointError


def sync(path: Path) -> None:
    """Force a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(file: Path) -> bytes:
    """The contents of a file. Raises CheckpointError if it is missing or cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise refusal(file, error) from error


def write(file: Path, data: bytes) -> None:
    """Write a file, down to the disk."""
    file.write_bytes(data)
    sync(file)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def verify(file: Path, expected: str) -> None:
    """Compare a file's SHA-256 sum, a piece at a time. Raises CheckpointError if it is not as expected."""
    try:
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise refusal(file, error) from error
    if found != expected:
        raise CheckpointError(f"{file}: damaged (its checksum does not match)")


def link(source: Path, target: Path) -> None:
    """Give a file a second name; a copy where the file system has no hard links, or no more of them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def refusal(file: Path, error: OSError) -> CheckpointError:
    """What to raise for a file of a checkpoint that could not be read."""
    missing = isinstance(error, FileNotFoundError)
    return CheckpointError(f"{file}: missing" if missing else f"{file}: unreadable ({error.strerror})")
