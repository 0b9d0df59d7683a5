"""File system functions for runs and models: checksums, links, durable and atomic writes."""

import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from supple.registry.errors import CheckpointError


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(file: Path, expected: str = "") -> bytes:
    """Return the contents of a file of a checkpoint.

    Raises CheckpointError if it cannot be read, or its SHA-256 sum is not the expected one, if one is given.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(f"{file}: missing") from error
    except OSError as error:
        raise CheckpointError(f"{file}: unreadable ({error.strerror})") from error
    if expected and sha256(data) != expected:
        raise CheckpointError(f"{file}: damaged (its checksum does not match)")
    return data


def write(file: Path, data: bytes) -> None:
    """Write a file, in place of an earlier one, and flush it to the disk. If that fails, it is removed."""
    try:
        file.write_bytes(data)
        sync(file)
    except OSError:
        file.unlink(missing_ok=True)
        raise


def replace(file: Path, data: bytes) -> None:
    """Write a file atomically: readers find either the old file or the complete new one. Raises OSError."""
    temporary = file.with_name(file.name + ".tmp")
    try:
        write(temporary, data)
        temporary.replace(file)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if the file system cannot make another hard link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Return a temporary folder for the block to fill, then flush it and rename it to `target`.

    If an exception is raised, the temporary folder is removed. If the process is killed, it is left as
    `tmp-<name>-<letters>`, a new name each time.

    Args:
        target: The folder. An existing one is replaced.
    """
    temporary = target.with_name(f"tmp-{target.name}-{uuid.uuid4().hex[:8]}")
    temporary.mkdir(parents=True)
    try:
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


def leftovers(folder: Path, names: str) -> list[Path]:
    """Return the temporary folders of `atomic_folder` that killed processes left in a folder.

    `names` is a regular expression for the names of their targets. What a user calls `tmp-2019` is none of them.
    """
    pattern = re.compile(rf"tmp-({names})-[0-9a-f]+")
    return [path for path in folder.glob("tmp-*") if pattern.fullmatch(path.name)]


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that processes write in it one after another, if the file system has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            lock_descriptor(handle)
        yield
    finally:
        os.close(handle)
