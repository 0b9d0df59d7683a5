"""Claims on the folders of runs, so that only one process at a time trains a run.

A claim is a small file, created with O_EXCL, that names its owner. Its modification time is the owner's heartbeat. It
needs no server, even on a shared file system: only exclusive creation of files (POSIX; NFS since version 3), and clocks
that differ by much less than ten minutes.
"""

import fcntl
import json
import os
import platform
import threading
import time
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, TypedDict

import psutil

from . import files, typed
from .errors import RunError
from .interruption import at_interruption

FILE = "claim.json"
BEAT = 30.0  # seconds between two heartbeats
LOST = 600.0  # seconds without a heartbeat after which an owner on another machine is assumed to be gone
NAMELESS = 10.0  # seconds for which a claim without an owner is assumed to be still being written
PATIENCE = 2.0  # seconds that a command waits for a claim: workers end shortly after their parent
BOOT = Path("/proc/sys/kernel/random/boot_id")  # changes with every start of the machine; Linux only


class Owner(TypedDict):
    """The process that holds a claim, as its file describes it."""

    token: str
    host: str
    boot: str
    pid: int
    started: float  # start of the process, in seconds since the start of the machine


class Claimed(RunError):
    """Another process is training the run in this folder."""


class Claim:
    """A claim that this process holds. A with statement releases it at its end, and if it is interrupted."""

    def __init__(self, file: Path) -> None:
        """Make the file. Raises FileExistsError if there is a claim already."""
        self.file, self.token = file, uuid.uuid4().hex
        owner = json.dumps(_this_process(self.token)).encode()
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(handle, owner)
        except OSError:  # a full disk: a claim without an owner would keep all processes out
            file.unlink()
            raise
        finally:
            os.close(handle)
        self._end = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()
        self._interruption = ExitStack()

    def __enter__(self) -> "Claim":
        self._interruption.enter_context(at_interruption(self.release))
        return self

    def __exit__(self, *_: object) -> None:
        self._interruption.close()
        self.release()

    def _beat(self) -> None:
        while not self._end.wait(BEAT):
            with suppress(OSError):  # `check` reports problems
                os.utime(self.file)

    def check(self) -> None:
        """Raise Claimed if another process has taken the run over.

        It does so if it assumes that this process is gone, for example because the machine slept without heartbeats.
        """
        if not self._mine():
            raise Claimed(f"{self.file.parent}: another process has taken over this run, so this one stops")

    def release(self) -> None:
        """Remove the claim, if it still belongs to this process."""
        self._end.set()
        with suppress(OSError):
            if self._mine():
                self.file.unlink()

    def _mine(self) -> bool:
        owner = _owner(self.file)
        return owner is not None and owner["token"] == self.token


def claim(folder: Path, patience: float = 0.0) -> Claim:
    """Return a claim on a folder. A claim whose owner is gone is replaced.

    Args:
        folder: The folder of a run.
        patience: Seconds to wait for another owner to end.

    Raises:
        Claimed: Another process has a claim; the message names it.
    """
    file, until = folder / FILE, time.monotonic() + patience
    while True:
        with suppress(FileExistsError):
            return Claim(file)
        if _removed(file):
            continue
        if time.monotonic() >= until:
            owner = _owner(file)
            raise Claimed(
                f"{folder}: process {owner['pid']} on {owner['host']} is training this run; "
                f"wait for it, or stop it first"
                if owner
                else f"{file} does not say which process is training this run; "
                f"if none is, try again in {NAMELESS:g} seconds"
            )
        time.sleep(0.05)


def _this_process(token: str) -> Owner:
    """Return the contents of a claim of this process."""
    pid = os.getpid()
    return Owner(token=token, host=platform.node(), boot=_boot(), pid=pid, started=_started(psutil.Process(pid)))


def _owner(file: Path) -> Owner | None:
    """Return the owner that a claim names, or None if there is no claim or it is damaged."""
    try:
        return _parsed(files.contents(file))
    except OSError:
        return None


def _parsed(text: bytes) -> Owner | None:
    try:
        owner: Owner = typed.fitted(typed.parse(text), Owner, "")
        return owner
    except ValueError:
        return None


def _gone(claim: BinaryIO) -> bool:
    """Return whether the owner of a claim has ended. For one on another machine, only its heartbeat is known."""
    silent, owner = time.time() - os.fstat(claim.fileno()).st_mtime, _parsed(claim.read())
    if owner is None:
        return silent > NAMELESS
    if owner["host"] != platform.node():
        return silent > LOST
    if owner["boot"] != _boot():
        return True
    try:
        found = psutil.Process(owner["pid"])
        return bool(abs(_started(found) - owner["started"]) > 1.5 or found.status() == psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return True


def _boot() -> str:
    return BOOT.read_text().strip() if BOOT.exists() else ""


def _started(process: psutil.Process) -> float:
    """Return the start of a process, in seconds since the start of the machine.

    Unlike the two times of day, their difference does not change if the clock is set.
    """
    return float(process.create_time() - psutil.boot_time())


def _removed(file: Path) -> bool:
    """Remove a claim if its owner is gone, and return whether that claim is no longer there.

    Several processes may try this at the same time. A lock on the file makes them take turns, and a process that then
    finds another claim there leaves it alone.
    """
    try:
        with files.opened(file, "rb") as found:
            if not _gone(found):
                return False
            with suppress(OSError):  # a file system without locks
                fcntl.flock(found, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(found.fileno()), file.lstat()):
                file.unlink()
    except FileNotFoundError:  # its owner or another process has removed it
        pass
    return True
