"""What checkpoints and models need of the file system: sums, links, bytes on the disk, folders that appear whole."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Return the contents of a file. Raises CheckpointError if it is missing or cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise refusal(file, error) from error


def write(file: Path, data: bytes) -> None:
    """Write a file, down to the disk."""
    file.write_bytes(data)
    sync(file)


def replace(file: Path, data: bytes) -> None:
    """Write a file at once: whoever reads finds the old one or the new one whole. Raises OSError, which names it."""
    temporary = file.with_name(file.name + ".tmp")
    try:
        write(temporary, data)
        temporary.replace(file)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(file)) from error
        raise


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


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Return a temporary folder, which becomes `target` once it is filled and on the disk, or else vanishes."""
    temporary = target.with_name(f"tmp-{target.name}-{os.getpid()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            sync(file)
        sync(temporary)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
        sync(target.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def refusal(file: Path, error: OSError) -> CheckpointError:
    """Return what to raise for a file of a checkpoint that could not be read."""
    missing = isinstance(error, FileNotFoundError)
    return CheckpointError(f"{file}: missing" if missing else f"{file}: unreadable ({error.strerror})")
