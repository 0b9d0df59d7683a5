"""File system functions for runs and models: plain files only, checksums, links, durable and atomic writes.

The folder that a user names may lie behind a symbolic link. Inside it, everything is supple's own, so a link there was
put there by somebody, and what is behind it is not supple's: `require_unlinked` refuses such a folder before anything
is written, and `remove` and `open_plain` follow no link that appears later.
"""

import errno
import hashlib
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from io import BufferedReader
from math import inf
from pathlib import Path
from typing import BinaryIO, Literal, cast

from filelock import lock_descriptor

from ...registry.errors import CheckpointError, RunError

FOREIGN = ("trackers", "workers")  # folders of other libraries inside supple's own; wandb makes links in its folder
PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # Windows has neither
LOCK = ".lock"  # a file in a folder that cannot be locked itself, while `lock_folder` holds it
Writing = Callable[[], AbstractContextManager[None]]  # `claim.Claim.writing`, or the like
OPEN_ELSEWHERE = 2.0  # seconds that a renaming waits for another program, on Windows
FOLDERS_OPEN = hasattr(os, "O_DIRECTORY")  # Windows opens no folders, and flushes their entries itself


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    if not FOLDERS_OPEN and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if FOLDERS_OPEN else os.O_RDWR)  # Windows flushes only what it may write to
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class NotPlain(OSError, RunError):
    """A symbolic link, pipe, folder or device was found where supple expects a plain file or folder of its own."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def open_plain(file: Path, mode: Literal["rb", "r+b", "xb", "ab"]) -> BinaryIO:
    """Open a plain file. "ab" creates it if it does not exist, "xb" requires that it does not.

    Raises:
        NotPlain: It is a symbolic link, which could lead out of the folder, or a pipe, which could block.
    """
    return open(file, mode, opener=_plain_handle)


def create(file: Path) -> BinaryIO:
    """Open a new file for writing. An earlier one, which a killed process left, is removed.

    It is not overwritten, because it may be a hard link, whose contents belong to a copy of the folder as well.

    Raises:
        NotPlain: Something other than a plain file has this name.
    """
    if os.path.lexists(file):
        open_plain(file, "rb").close()
        file.unlink()
    return open_plain(file, "xb")


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, if there is none. Raises NotPlain if something else has its name."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        obstacle = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), folder)
        raise NotPlain(errno.ENOTDIR, "not a folder", str(obstacle)) from error


def _plain_handle(name: str, flags: int) -> int:
    if is_link(name):  # where there is no O_NOFOLLOW
        raise _link_error(name)
    try:
        handle = os.open(name, flags | PLAIN, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link_error(name) from None
        if error.errno in (errno.EISDIR, errno.ENXIO):  # ENXIO: a pipe that no process reads
            raise NotPlain(error.errno, "not a plain file", name) from None
        if not FOLDERS_OPEN and os.path.isdir(name):
            raise NotPlain(errno.EISDIR, "not a plain file", name) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotPlain(errno.EINVAL, "not a plain file", name)
    return handle


def is_link(path: str | Path) -> bool:
    """Return whether a path is a symbolic link or, on Windows, a junction (which Python can see from 3.12)."""
    return os.path.islink(path) or getattr(os.path, "isjunction", lambda _: False)(path)


def require_unlinked(root: Path) -> None:
    """Raise NotPlain if there is a link anywhere inside a folder of supple, such as a run, a comparison or a sweep.

    `root` itself may be one. Only links inside the folders of other libraries are accepted, such as those of trackers.
    Folders that vanish meanwhile are no problem: other processes remove old checkpoints.
    """
    folders, link = [str(root)], ""
    while folders and not link:
        folder = folders.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink() or getattr(entry, "is_junction", lambda: False)():
                    link = entry.path
                    break
                is_own = folder == str(root) or os.path.basename(folder) not in FOREIGN
                if is_own and entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    if link:
        raise _link_error(link)


def require_own(path: Path, root: Path) -> None:
    """Raise NotPlain if a path inside `root`, or a folder between the two, is a link."""
    for place in (path, *path.parents):
        if place == root:
            return
        if is_link(place):
            raise _link_error(str(place))


def remove(folder: Path, root: Path) -> None:
    """Remove a folder inside `root` with its contents, if there is one.

    Where the system allows it, each folder on the way is opened from the one before, so that no link is followed even
    if it appears at this very moment.

    Raises:
        NotPlain: The folder, or one between it and `root`, is a link.
        OSError: It cannot be removed.
    """
    require_own(folder, root)
    if not os.path.lexists(folder):
        return
    if not (FOLDERS_OPEN and shutil.rmtree.avoids_symlink_attacks):
        shutil.rmtree(folder)
        return
    *way, name = folder.relative_to(root).parts
    with ExitStack() as stack:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, handle)
        for part in way:
            handle = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            stack.callback(os.close, handle)
        shutil.rmtree(name, dir_fd=handle)


def _link_error(name: str) -> NotPlain:
    return NotPlain(errno.ELOOP, "a symbolic link, which supple does not follow", name)


def contents(file: Path) -> bytes:
    """Return the contents of a plain file. Raises OSError."""
    with open_plain(file, "rb") as stream:
        return stream.read()


def read(file: Path) -> bytes:
    """Return the contents of a file. Raises CheckpointError if it is missing or cannot be read."""
    try:
        return contents(file)
    except OSError as error:
        raise _refusal(file, error) from error


def write(file: Path, data: bytes) -> None:
    """Write a file, in place of an earlier one, and flush it to the disk. If that fails, it is removed."""
    stream = create(file)
    try:
        with stream:
            stream.write(data)
        sync(file)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def replace(file: Path, data: bytes) -> None:
    """Write a file atomically: readers find either the old file or the complete new one. Raises OSError."""
    temporary = file.with_name(file.name + ".tmp")
    try:
        write(temporary, data)
        try:
            _rename_patiently(temporary.replace, file)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except NotPlain:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


def _rename_patiently(rename: Callable[[Path], object], target: Path) -> None:
    """Rename, on Windows as soon as no other program has it open, which may be one that reads or scans it."""
    until = time.monotonic() + (0.0 if FOLDERS_OPEN else OPEN_ELSEWHERE)
    while True:
        try:
            rename(target)
            return
        except PermissionError:
            if time.monotonic() >= until:
                raise
        time.sleep(0.02)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def verify(file: Path, expected: str) -> None:
    """Raise CheckpointError if a file cannot be read or its SHA-256 sum is not the expected one."""
    try:
        with open_plain(file, "rb") as stream:
            actual = hashlib.file_digest(cast(BufferedReader, stream), "sha256").hexdigest()
    except OSError as error:
        raise _refusal(file, error) from error
    if actual != expected:
        raise CheckpointError(f"{file}: damaged (its checksum does not match)")


def link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if the file system cannot make another hard link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@contextmanager
def atomic_folder(target: Path, writing: Writing = nullcontext) -> Iterator[Path]:
    """Return a temporary folder for the block to fill, then flush it and rename it to `target`.

    If an exception is raised, the temporary folder is removed. If the process is killed, it is left as
    `tmp-<name>-<letters>`, a new name each time: no two processes write to one, and nothing that exists already may be
    removed in its place.

    Args:
        target: The folder. An existing one is replaced.
        writing: Returns a block in which this process may change the folder above.
    """
    temporary = target.with_name(f"tmp-{target.name}-{uuid.uuid4().hex[:8]}")
    with writing():
        make_folder(target.parent)
        temporary.mkdir()
    try:
        yield temporary
        move_into_place(temporary, target, writing)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def move_into_place(temporary: Path, target: Path, writing: Writing) -> None:
    """Flush a complete folder to the disk and give it its name, in place of an earlier folder of that name."""
    for file in temporary.iterdir():
        sync(file)
    sync(temporary)
    with writing():
        remove(target, target.parent)
        _rename_patiently(temporary.rename, target)
        sync(target.parent)


def leftovers(folder: Path, names: str) -> list[Path]:
    """Return the temporary folders of `atomic_folder` that killed processes left in a folder.

    `names` is a regular expression for the names of their targets. What a user calls `tmp-2019` is none of them.
    """
    pattern = re.compile(rf"tmp-({names})-[0-9a-f]+")
    return [path for path in folder.glob("tmp-*") if pattern.fullmatch(path.name)]


def lock(handle: int, patience: float = inf) -> bool:
    """Lock an open file or folder until it is closed, and return whether other processes are kept out.

    On a file system without locks, none are, but True is returned, because waiting would not help.

    Args:
        handle: The file descriptor.
        patience: Seconds to wait for another process to close it.
    """
    until, pause = time.monotonic() + patience, 0.001
    with suppress(OSError):
        while not lock_descriptor(handle, blocking=False):
            if time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
    return True


def is_at(file: Path, opened: BinaryIO) -> bool:
    """Return whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(opened.fileno()), file.lstat())
    except FileNotFoundError:
        return False


def unlink(file: Path, opened: BinaryIO) -> None:
    """Remove a file that is open and locked here. It may not exist any more."""
    try:
        file.unlink(missing_ok=True)
    except PermissionError:  # Windows does not remove a file that is open
        opened.close()
        file.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that processes write in it one after another, if the file system has locks.

    Where a folder cannot be opened (Windows), a file in it is locked in its place, and removed at the end.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        with _lock_file(folder / LOCK):
            yield
        return
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)


@contextmanager
def _lock_file(file: Path) -> Iterator[None]:
    while True:
        stream = open_plain(file, "ab")
        lock(stream.fileno())
        if is_at(file, stream):
            break
        stream.close()  # the process before removed it
    try:
        yield
    finally:
        with stream, suppress(OSError):  # another process that waits for it has it open, and will remove it
            unlink(file, stream)


def _refusal(file: Path, error: OSError) -> CheckpointError:
    """Return the exception to raise for a file of a checkpoint that could not be read."""
    missing = isinstance(error, FileNotFoundError)
    return CheckpointError(f"{file}: missing" if missing else f"{file}: unreadable ({error.strerror})")
