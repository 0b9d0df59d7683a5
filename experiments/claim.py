"""A claim on a run's folder: one process at a time goes on with what lies in it.

A claim is one small file, made with O_EXCL, that names its owner and whose time of change is the owner's heartbeat. It
needs no server and no locks, on a shared file system either: only that a file is made exclusively and renamed
atomically (POSIX; NFS since version 3), and clocks that differ by far less than ten minutes.
"""

import json
import os
import platform
import threading
import time
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil

from . import files, typed
from .errors import RunError
from .interruption import at_interruption

FILE = "claim.json"
BEAT = 30.0  # seconds between two heartbeats
LOST = 600.0  # seconds without one, after which an owner on another machine is taken for gone
PATIENCE = 2.0  # seconds that a person's command waits: workers end shortly after their parent


class Claimed(RunError):
    """Another process goes on with this folder."""


class Claim:
    """A claim that this process holds: use it in a with statement, which gives it up, at an interruption too."""

    def __init__(self, file: Path) -> None:
        """Make the file. Raises FileExistsError if somebody has a claim."""
        self.file, self.token = file, uuid.uuid4().hex
        owner = {
            "token": self.token,
            "host": platform.node(),
            "pid": os.getpid(),
            "started": psutil.Process().create_time(),
        }
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(handle, json.dumps(owner).encode())
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
        if _owner(self.file).get("token") != self.token:
            raise Claimed(f"{self.file.parent}: another process has taken this run over; this one stops")

    def release(self) -> None:
        """Remove the file, if it is still this process's."""
        self._end.set()
        with suppress(OSError):
            if _owner(self.file).get("token") == self.token:
                self.file.unlink()


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
                f"{folder}: process {owner.get('pid')} on {owner.get('host')} is at work on this run; "
                f"wait for it, or stop it first"
            )
        else:
            time.sleep(0.05)


def _owner(file: Path) -> dict[str, Any]:
    """Return what a claim says of its owner; nothing where there is no claim, or a damaged one."""
    try:
        found = typed.parse(files.contents(file))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _gone(file: Path, owner: dict[str, Any]) -> bool:
    """Return whether the owner of a claim is no more. What another machine does only its heartbeat tells."""
    try:
        silent = time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return False  # the claim is gone, and with it the question
    if owner.get("host") != platform.node():
        return silent > LOST
    try:
        found = psutil.Process(owner["pid"])
        return bool(abs(found.create_time() - owner["started"]) > 1 or found.status() == psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, KeyError, TypeError, ValueError):
        return True


def _remove(file: Path, owner: dict[str, Any]) -> None:
    """Remove the claim of an owner that is gone, and no other: two processes may do this at once, and the second is
    not to remove the new claim of the first. A rename gives each file to one of them only."""
    moved = file.with_name(f"{FILE}.{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):
        file.rename(moved)
        if _owner(moved) != owner:
            with suppress(FileExistsError):
                os.link(moved, file)
        moved.unlink()
