"""The logs of a run: files to which only the process that trains the run appends.

Lines are kept in memory until they are flushed, so that nothing is written at a moment that the run does not choose.
"""

import os
from pathlib import Path
from typing import BinaryIO

from supple.registry.errors import RunError

FULL = 8192  # bytes in memory with which a log is flushed early


class Log:
    """A log that is open for appending, truncated to its first `length` bytes.

    Raises RunError if it is shorter, or is not there.
    """

    def __init__(self, file: Path, length: int) -> None:
        if length and (size := _size(file)) < length:
            raise RunError(f"{file}: it has {size} bytes, but the checkpoint recorded {length}: the log was truncated")
        self.file, self.length = file, length  # in bytes, on the disk
        self.waiting = bytearray()
        self._stream: BinaryIO = file.open("ab")
        os.truncate(file, length)

    def add(self, data: bytes) -> bool:
        """Append bytes in memory, and return whether so many wait there that they should be flushed."""
        self.waiting += data
        return len(self.waiting) >= FULL

    def flush(self) -> None:
        """Write to the file. Raises RunError if it does not have the length that this process has written."""
        data, self.waiting = self.waiting, bytearray()  # if they cannot be written, they are not tried again
        if data:
            self.check()
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(self._stream.fileno(), remaining) :]
            self.length += len(data)

    def check(self) -> None:
        """Raise RunError if the file does not have the length that this process has written."""
        require_length(self.file, self.length, "this process wrote")

    def sync(self) -> None:
        """Flush the file to the disk. Raises RunError as `check` does."""
        self.check()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


def require_length(file: Path, length: int, who: str) -> None:
    """Raise RunError if a log does not have this length in bytes, as `who` says ("this process wrote")."""
    size = _size(file)
    if size != length:
        added = f"another program has written to this log, whose first {length} bytes are the run's"
        what = added if size > length else "this log was truncated or replaced"
        raise RunError(f"{file}: it has {size} bytes, but {who} {length}: {what}")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        raise RunError(f"{file}: this log was removed or renamed") from None
