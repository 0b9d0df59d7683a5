"""The lock on the folder of a run, so that only one process at a time trains it.

`filelock` holds a lock of the kernel on a small file for as long as the process lives. A stopped process keeps it, and
that of a process that was killed is free. The file names the host and the process. An orderly end empties it.

Some file systems do not carry locks from machine to machine (some NFS, Lustre). Therefore the owner also touches the
file while it trains: a free lock whose file names another host, and was touched in the last ten minutes, counts as
held. On a file system without locks, the file alone decides.
"""

import errno
import os
import platform
import time
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from supple.registry.errors import DiskError, RunError
from supple.registry.interruption import at_interruption

FILE = ".lock"
TOUCH = 60.0  # seconds between two touches
LOST = 600.0  # seconds without a touch after which an owner on another machine is assumed to be gone
PATIENCE = 2.0  # seconds that a command waits for a lock: workers end shortly after their parent
WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


class Held(RunError):
    """Another process is training the run in this folder."""


class Lost(DiskError):
    """The folder of a run was removed or renamed while the run was trained."""


class Lock:
    """The lock on a folder, which this process holds until `release`, or the end of a with statement.

    Args:
        folder: The folder of a run.
        patience: Seconds to wait for another owner to end.

    Raises:
        Held: Another process has it; the message names it.
    """

    def __init__(self, folder: Path, patience: float = 0.0) -> None:
        self.file = folder.absolute() / FILE  # an environment may change the working directory
        self._text = f"process {os.getpid()} on {platform.node()}"
        self._touched = time.monotonic()
        self._interruption = ExitStack()
        self._lock = _acquire(self.file, patience)
        try:
            # it may name an owner whose lock is not seen from here
            owner = _read(self.file)
            seen = self._lock.is_locked and owner.endswith(f" on {platform.node()}")
            if owner and not seen and (silent := abs(time.time() - self.file.stat().st_mtime)) < LOST:
                raise Held(
                    f"{self.file.parent}: {owner} was training this run {silent:.0f} seconds ago; if it has ended, "
                    f"wait until that is {LOST / 60:g} minutes ago, or add --take-over to `supple resume`"
                )
            self.file.write_bytes(self._text.encode())
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> "Lock":
        self._interruption.enter_context(at_interruption(self._empty))  # the kernel does the rest
        return self

    def __exit__(self, *_: object) -> None:
        self._interruption.close()
        self.release()

    def touch(self) -> None:
        """Show other machines that the run is being trained. Costs nothing if the last touch was less than 60 s ago."""
        if time.monotonic() - self._touched > TOUCH:
            self._touched = time.monotonic()
            os.utime(self.file)

    def check(self) -> None:
        """Raise Held if another process has taken the run over, or Lost if the folder was removed or renamed."""
        if not self.file.parent.is_dir():
            raise removal_error(self.file.parent)
        if (owner := _read(self.file)) != self._text:
            raise Held(f"{self.file.parent}: {owner or 'another process'} has taken over this run, so this one stops")

    def release(self) -> None:
        """Empty the file, unless it names another process by now, and release the lock."""
        self._empty()
        self._lock.release()

    def _empty(self) -> None:
        with suppress(OSError):
            if _read(self.file) == self._text:
                os.truncate(self.file, 0)


def take_over(folder: Path) -> None:
    """Forget the owner that the lock file of a run names, so that another process can train the run.

    Raises Held if that owner is known to be alive, because its lock is seen from here.
    """
    if (folder / FILE).exists():
        lock = _acquire(folder / FILE, PATIENCE)
        os.truncate(folder / FILE, 0)
        lock.release()


def removal_error(folder: Path) -> Lost:
    """Return the exception to raise for the folder of a run that is no longer there, which names what was removed."""
    while not folder.parent.is_dir():
        folder = folder.parent
    return Lost(
        f"{folder}: this folder was removed or renamed during the training in it, so this process stops; "
        f"if it has another name now, `supple resume NAME` continues from the last checkpoints"
    )


def _acquire(file: Path, patience: float) -> BaseFileLock:
    """Return the kernel's lock on a file, acquired unless the file system has no locks. Raises Held."""
    lock = FileLock(file, timeout=patience, fallback_to_soft=False, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        owner = _read(file) or "another process"
        raise Held(f"{file.parent}: {owner} is training this run; wait for it, or stop it first") from None
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        warnings.warn(
            "the file system of the runs has no locks: that no other process trains a run is only known from the file "
            f"{FILE} in its folder",
            stacklevel=2,
        )
    return lock


def _read(file: Path) -> str:
    return file.read_bytes().decode(errors="replace") if file.exists() else ""
