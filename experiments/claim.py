"""A claim on a run's folder: one process at a time goes on with what lies in it.

A claim is one small file, made with O_EXCL, that names its owner and whose time of change is the owner's heartbeat. It
needs no server, on a shared file system either: only that a file is made exclusively (POSIX; NFS since version 3), and
clocks that differ by far less than ten minutes.
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
from typing import TypedDict

import psutil

from . import files, typed
from .errors import RunError
from .interruption import at_interruption

FILE = "claim.json"
BEAT = 30.0  # seconds between two heartbeats
LOST = 600.0  # seconds without one, after which an owner on another machine is taken for gone
NAMELESS = 10.0  # seconds for which a claim that names no owner is taken for one that is being written
PATIENCE = 2.0  # seconds that a person's command waits: workers end shortly after their parent
BOOT = Path("/proc/sys/kernel/random/boot_id")  # another text after every start of the machine; Linux only


class Owner(TypedDict):
    """The contents of a claim."""

    token: str
    host: str
    boot: str
    pid: int
    started: float  # seconds from the start of the machine to that of the process


class Claimed(RunError):
    """Another process goes on with this folder."""


class Claim:
    """A claim that this process holds: use it in a with statement, which gives it up, at an interruption too."""

    def __init__(self, file: Path) -> None:
        """Make the file. Raises FileExistsError if somebody has a claim."""
        self.file, self.token = file, uuid.uuid4().hex
        owner = json.dumps(_this_process(self.token)).encode()
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(handle, owner)
        except OSError:  # a full disk: a claim of nobody would keep everybody out
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
            with suppress(OSError):  # `check` says what is to be said
                os.utime(self.file)

    def check(self) -> None:
        """Raise Claimed if another process has taken the claim over, which took this one for gone: a machine may have
        slept for longer than heartbeats may stay away."""
        if not self._mine():
            raise Claimed(f"{self.file.parent}: another process has taken this run over; this one stops")

    def release(self) -> None:
        """Remove the file, if it is still this process's."""
        self._end.set()
        with suppress(OSError):
            if self._mine():
                self.file.unlink()

    def _mine(self) -> bool:
        owner = _owner(self.file)
        return owner is not None and owner["token"] == self.token


def claim(folder: Path, patience: float = 0.0) -> Claim:
    """Return a claim on a folder, taking over that of an owner that is gone.

    patience: seconds to wait for the owner to be gone. Raises Claimed, which names the owner, if it is not.
    """
    file, until = folder / FILE, time.monotonic() + patience
    while True:
        with suppress(FileExistsError):
            return Claim(file)
        owner = _owner(file)
        if _gone(file, owner):
            _remove(file, owner)
        elif time.monotonic() >= until:
            raise Claimed(
                f"{folder}: process {owner['pid']} on {owner['host']} is at work on this run; "
                f"wait for it, or stop it first"
                if owner
                else f"{file} does not say which process is at work on this run; "
                f"if none is, it can be taken over in {NAMELESS:g} seconds"
            )
        else:
            time.sleep(0.05)


def _this_process(token: str) -> Owner:
    """Return what a claim of this process says."""
    pid = os.getpid()
    return Owner(token=token, host=platform.node(), boot=_boot(), pid=pid, started=_started(psutil.Process(pid)))


def _owner(file: Path) -> Owner | None:
    """Return what a claim says of its owner; None where there is no claim, or a damaged one."""
    try:
        owner: Owner = typed.fitted(typed.parse(files.contents(file)), Owner, "")
        return owner
    except (OSError, ValueError):
        return None


def _gone(file: Path, owner: Owner | None) -> bool:
    """Return whether the owner of a claim is no more. What another machine does only its heartbeat tells."""
    try:
        silent = time.time() - file.lstat().st_mtime
    except FileNotFoundError:
        return True  # and so is the claim
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
    """Return the seconds from the start of the machine to that of a process: both times of day move with the clock
    when somebody sets it, their difference does not."""
    return float(process.create_time() - psutil.boot_time())


def _remove(file: Path, owner: Owner | None) -> None:
    """Remove the claim of an owner that is gone, and no other. Several processes may come to this at once: a lock on
    the very file lets them do so in turn, and who then finds another claim in its place leaves that alone."""
    with suppress(FileNotFoundError), files.opened(file, "rb") as found:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(found, fcntl.LOCK_EX)
        if os.path.samestat(os.fstat(found.fileno()), file.lstat()) and _owner(file) == owner:
            file.unlink()
