"""File system functions for runs and models: plain files only, checksums, links, durable and atomic writes."""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Literal, cast

from .errors import CheckpointError


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class NotPlain(OSError):
    """A symbolic link, pipe, folder or device was found where supple expects a plain file or folder of its own."""


def opened(file: Path, mode: Literal["rb", "wb", "ab"]) -> BinaryIO:
    """Open a plain file. "wb" and "ab" create it if it does not exist.

    Raises:
        NotPlain: It is a symbolic link, which could lead out of the folder, or a pipe, which could block.
    """
    return open(file, mode, opener=_plain_handle)


def _plain_handle(name: str, flags: int) -> int:
    try:
        handle = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link(name) from None
        if error.errno in (errno.EISDIR, errno.ENXIO):  # ENXIO: a pipe that no process reads
            raise NotPlain(error.errno, "not a plain file", name) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotPlain(errno.EINVAL, "not a plain file", name)
    return handle


def require_own(folder: Path) -> None:
    """Raise NotPlain if a folder of a run is a symbolic link, since files elsewhere would be written or removed."""
    if folder.is_symlink():
        raise _link(str(folder))


def _link(name: str) -> NotPlain:
    return NotPlain(errno.ELOOP, "a symbolic link, which supple does not follow", name)


def contents(file: Path) -> bytes:
    """Return the contents of a plain file. Raises OSError."""
    with opened(file, "rb") as stream:
        return stream.read()


def read(file: Path) -> bytes:
    """Return the contents of a file. Raises CheckpointError if it is missing or cannot be read."""
    try:
        return contents(file)
    except OSError as error:
        raise refusal(file, error) from error


def write(file: Path, data: bytes) -> None:
    """Write a file and flush it to the disk."""
    with opened(file, "wb") as stream:
        stream.write(data)
    sync(file)


def replace(file: Path, data: bytes) -> None:
    """Write a file atomically: readers find either the old file or the complete new one. Raises OSError."""
    temporary = file.with_name(file.name + ".tmp")
    try:
        write(temporary, data)
        temporary.replace(file)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, NotPlain):
            raise OSError(error.errno, error.strerror, str(file)) from error
        raise


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def verify(file: Path, expected: str) -> None:
    """Raise CheckpointError if a file cannot be read or its SHA-256 sum is not the expected one."""
    try:
        with opened(file, "rb") as stream:
            found = hashlib.file_digest(cast(BufferedReader, stream), "sha256").hexdigest()
    except OSError as error:
        raise refusal(file, error) from error
    if found != expected:
        raise CheckpointError(f"{file}: damaged (its checksum does not match)")


def link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if the file system cannot make another hard link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Return a temporary folder for the block to fill, then flush it and rename it to `target`.

    If an exception is raised, the temporary folder is removed.
    """
    temporary = target.with_name(f"tmp-{target.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed here
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


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that processes write in it one after another, if the file system has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def refusal(file: Path, error: OSError) -> CheckpointError:
    """Return the exception to raise for a file of a checkpoint that could not be read."""
    missing = isinstance(error, FileNotFoundError)
    return CheckpointError(f"{file}: missing" if missing else f"{file}: unreadable ({error.strerror})")
