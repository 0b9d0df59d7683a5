"""Claims on the folders of runs, so that only one process at a time trains a run.

A claim is a small file, created with O_EXCL, that names its owner. Its modification time is the owner's heartbeat. It
needs no server, even on a shared file system: only exclusive creation of files (POSIX; NFS since version 3), and clocks
that differ by much less than ten minutes.

An owner can lose its claim without noticing: it was stopped, or its machine slept, and another process took over. It
therefore writes to the run's folder only within `Claim.writing`, which looks at the claim first, and meanwhile holds a
lock on its file. A claim is only removed under that lock, so no process takes over between the look and the writing.
"""

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypedDict

import psutil

from ...registry import schema
from ...registry.errors import DiskError, RunError
from ...registry.interruption import at_interruption
from . import files

FILE = "claim.json"
BEAT = 30.0  # seconds between two heartbeats
LOST = 600.0  # seconds without a heartbeat after which an owner on another machine is assumed to be gone
NAMELESS = 10.0  # seconds for which a claim without an owner is assumed to be still being written
PATIENCE = 2.0  # seconds that a command waits for a claim: workers end shortly after their parent
TURN = 0.5  # seconds that a process waits for the lock on a claim, which others hold for much less
BOOT = Path("/proc/sys/kernel/random/boot_id")  # changes with every start of the machine; Linux only
NAMESPACE = Path("/proc/self/ns/pid")  # in which process ids are counted: containers have their own; Linux only


class Owner(TypedDict):
    """The process that holds a claim, as its file describes it."""

    token: str
    host: str
    boot: str
    pid: int
    started: float  # start of the process, in seconds since the start of the machine
    namespace: str  # in which `pid` is counted


class Claimed(RunError):
    """Another process is training the run in this folder."""


class Lost(DiskError):
    """The folder of a run was removed or renamed while the run was trained."""


class Claim:
    """A claim that this process holds. A with statement releases it at its end, and if it is interrupted."""

    def __init__(self, file: Path) -> None:
        """Make the file. Raises FileExistsError if there is a claim already."""
        self.file, self.token = file, uuid.uuid4().hex
        self._text = json.dumps(_describe_this_process(self.token)).encode()
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(handle, self._text)
        except OSError:  # a full disk: a claim without an owner would keep all processes out
            file.unlink()
            raise
        finally:
            os.close(handle)
        self._turn, self._depth = threading.RLock(), 0
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
            # not `writing`, which another thread may be in for long; the next write reports problems
            with suppress(OSError, RunError), self._open_own(0.0, insist=False):
                os.utime(self.file)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write to the folder in this block. While it lasts, no other process can take the run over.

        It should be short, because other processes cannot take over from one that was stopped within it. On a file
        system without locks, another process can take over between the look at the claim and the writing.

        Raises:
            Claimed: Another process has taken the run over. It does so if it assumes that this process is gone, for
                example because the machine slept without heartbeats.
            Lost: The folder was removed or renamed.
        """
        with self._turn:
            if self._depth:
                yield
                return
            with self._open_own(PATIENCE):
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise Claimed or Lost in place of an exception in this block, if that explains it.

        For example, a file can be missing because the process that has taken over has removed it.
        """
        try:
            yield
        except Exception:
            self.check()
            raise

    def check(self) -> None:
        """Raise Claimed or Lost, like `writing`, if the run no longer belongs to this process."""
        with self.writing():
            pass

    def release(self) -> None:
        """Remove the claim, if it still belongs to this process."""
        self._end.set()
        # not `writing`: the code that was interrupted, or another thread, may be in it and never leave it
        with suppress(OSError, RunError), self._open_own(0.0 if self._depth else TURN, insist=False) as stream:
            files.unlink(self.file, stream)

    def _open_own(self, patience: float, insist: bool = True) -> BinaryIO:
        """Return the open and locked file of the claim.

        Args:
            patience: Seconds to wait for the lock.
            insist: Whether a lock that another process holds means that it takes the run over.

        Raises:
            Claimed: The claim is no longer this process's.
            Lost: The folder is no longer there.
        """
        try:
            stream = _open_lockable(self.file)
        except (FileNotFoundError, NotADirectoryError):
            raise self._vanished_error() from None
        try:
            locked = files.lock(stream.fileno(), patience) or not insist
            if locked and stream.read() == self._text and files.is_at(self.file, stream):
                return stream
        except BaseException:
            stream.close()
            raise
        stream.close()
        if not self.file.exists():
            raise self._vanished_error()
        owner = _read_owner(self.file)
        other = owner and owner["token"] != self.token
        who = f"process {owner['pid']} on {owner['host']}" if owner and other else "another process"
        raise Claimed(f"{self.file.parent}: {who} has taken over this run, so this one stops")

    def _vanished_error(self) -> RunError:
        """Return the exception to raise if there is no claim where this process made one."""
        folder = self.file.parent
        if folder.is_dir():
            return Claimed(
                f"{self.file} is gone: another process has taken over this run and has ended, or the file was removed; "
                f"so this one stops, and `supple resume {folder}` continues from the last checkpoint"
            )
        return removal_error(folder)


def removal_error(folder: Path) -> Lost:
    """Return the exception to raise for the folder of a run that is no longer there, which names what was removed."""
    while not folder.parent.is_dir():
        folder = folder.parent
    return Lost(
        f"{folder}: this folder was removed or renamed during the training in it, so this process stops; "
        f"if it has another name now, `supple resume NAME` continues from the last checkpoints"
    )


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
        if _remove_if_ended(file):
            continue
        if time.monotonic() >= until:
            owner = _read_owner(file)
            raise Claimed(
                f"{folder}: process {owner['pid']} on {owner['host']} is training this run; "
                f"wait for it, or stop it first"
                if owner
                else f"{file} does not say which process is training this run; "
                f"if none is, try again in {NAMELESS:g} seconds"
            )
        time.sleep(0.05)


def _describe_this_process(token: str) -> Owner:
    """Return the contents of a claim of this process."""
    pid = os.getpid()
    started = _start_of(psutil.Process(pid))
    return Owner(token=token, host=platform.node(), boot=_boot(), pid=pid, started=started, namespace=_namespace())


def _read_owner(file: Path) -> Owner | None:
    """Return the owner that a claim names, or None if there is no claim or it is damaged."""
    try:
        return _parse_owner(files.contents(file))
    except OSError:
        return None


def _parse_owner(text: bytes) -> Owner | None:
    try:
        owner: Owner = schema.convert(schema.parse_json(text), Owner, "")
        return owner
    except ValueError:
        return None


def _has_ended(claim: BinaryIO) -> bool:
    """Return whether the owner of a claim has ended.

    For one on another machine or in another container, whose processes cannot be seen, only its heartbeat is known. A
    heartbeat in the future is from a clock that was wrong, and counts like one that is as far in the past: otherwise it
    would keep all processes out until that time has come.
    """
    claim.seek(0)
    silent, owner = abs(time.time() - os.fstat(claim.fileno()).st_mtime), _parse_owner(claim.read())
    if owner is None:
        return silent > NAMELESS
    if owner["host"] != platform.node() or owner["namespace"] != _namespace():
        return silent > LOST
    if owner["boot"] != _boot():
        return True
    try:
        process = psutil.Process(owner["pid"])
        return bool(abs(_start_of(process) - owner["started"]) > 1.5 or process.status() == psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return True


def _boot() -> str:
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _namespace() -> str:
    """Return the number of the namespace of this process's id, or "" where there is none.

    Two containers can have one host name, and then the same ids belong to different processes.
    """
    try:
        return str(NAMESPACE.stat().st_ino)
    except OSError:
        return ""


def _start_of(process: psutil.Process) -> float:
    """Return the start of a process, in seconds since the start of the machine.

    Unlike the two times of day, their difference does not change if the clock is set.
    """
    return float(process.create_time() - psutil.boot_time())


def _remove_if_ended(file: Path) -> bool:
    """Remove a claim if its owner is gone, and return whether that claim is no longer there.

    Several processes may try this at the same time. A lock on the file makes them take turns, and a process that then
    finds another claim there leaves it alone. An owner that was stopped while it holds the lock keeps its claim.
    """
    try:
        with _open_lockable(file) as stream:
            if not _has_ended(stream) or not files.lock(stream.fileno(), TURN):
                return False
            if files.is_at(file, stream) and _has_ended(stream):  # it was not woken in the meantime
                files.unlink(file, stream)
    except FileNotFoundError:  # its owner or another process has removed it
        pass
    return not file.exists()


def _open_lockable(file: Path) -> BinaryIO:
    """Open a claim so that it can be locked, for which NFS requires that it can be written."""
    try:
        return files.open_plain(file, "r+b")
    except PermissionError:  # the claim of another user
        return files.open_plain(file, "rb")
