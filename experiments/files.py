"""What runs and models need of the file system: plain files only, sums, links, bytes on the disk, folders that appear
whole."""

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
    """Force a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class NotPlain(OSError):
    """A symbolic link, a pipe, a folder or a device, where supple writes plain files and folders only."""


def opened(file: Path, mode: Literal["rb", "wb", "ab"]) -> BinaryIO:
    """Open a plain file; "wb" and "ab" make one where there is none.

    Raises NotPlain for a symbolic link, which could lead out of the folder, and for a pipe, which could block."""
    return open(file, mode, opener=_plain_handle)


def _plain_handle(name: str, flags: int) -> int:
    try:
        handle = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link(name) from None
        if error.errno in (errno.EISDIR, errno.ENXIO):  # a pipe that nobody reads
            raise NotPlain(error.errno, "not a plain file", name) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotPlain(errno.EINVAL, "not a plain file", name)
    return handle


def require_own(folder: Path) -> None:
    """Raise NotPlain for a folder of a run that is a symbolic link: what is written or removed there is elsewhere."""
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
    """Write a file, down to the disk."""
    with opened(file, "wb") as stream:
        stream.write(data)
    sync(file)


def replace(file: Path, data: bytes) -> None:
    """Write a file at once: whoever reads finds the old one or the new one whole. Raises OSError, which names it."""
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
    """Compare a file's SHA-256 sum, a piece at a time. Raises CheckpointError if it is not as expected."""
    try:
        with opened(file, "rb") as stream:
            found = hashlib.file_digest(cast(BufferedReader, stream), "sha256").hexdigest()
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
    temporary = target.with_name(f"tmp-{target.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed here
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
    """Let processes that write in a folder do so one after another, where the file system has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def refusal(file: Path, error: OSError) -> CheckpointError:
    """Return what to raise for a file of a checkpoint that could not be read."""
    missing = isinstance(error, FileNotFoundError)
    return CheckpointError(f"{file}: missing" if missing else f"{file}: unreadable ({error.strerror})")
