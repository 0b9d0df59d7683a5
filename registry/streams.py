"""Standard output and error that never raise: what cannot be written is dropped, and what cannot be encoded is escaped.

Output fails for reasons that are none of a run's: the reader of a pipe has gone (`supple train … | head -1`), the disk
with the log is full, the terminal was closed. Code that prints need not know of it; `output_error` returns what failed.
"""

import codecs
import errno
import io
import os
import select
import sys
from contextlib import suppress

from .shown import HIDDEN, escape, shown

ESCAPED = "supple.escaped"  # the name of the error handler
_lost: dict[int, OSError] = {}  # file descriptor → why its output failed


class Outlet(io.FileIO):
    """A file descriptor to write to. From the first failure on, it is the null device for all that write to it."""

    beneath: object = None  # the stream that this replaces: when it goes, it closes the file descriptor

    def write(self, data: object) -> int:
        """Write bytes, and return how many were written or dropped."""
        while True:
            try:
                written = super().write(data)  # type: ignore[arg-type]
            except OSError as error:
                self._give_up(error)
                return len(data)  # type: ignore[arg-type]
            if written is not None:
                return written
            with suppress(OSError, ValueError):  # a pipe that does not block is full
                select.select([], [self.fileno()], [])

    def _give_up(self, error: OSError) -> None:
        _lost.setdefault(self.fileno(), error)
        with suppress(OSError):  # else every write fails, and is dropped
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)


def protect_streams() -> None:
    """Make this process's standard output and error streams that never raise. A closed one becomes the null device."""
    codecs.register_error(ESCAPED, _escape)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # the shell closed it, as by `>&-`
            setattr(sys, name, _null(number))
        elif isinstance(stream, io.TextIOWrapper):
            if isinstance(raw := _raw(stream), io.FileIO) and not isinstance(raw, Outlet):
                with suppress(OSError):
                    stream.flush()
                setattr(sys, name, _protected(stream, raw.fileno()))
            getattr(sys, name).reconfigure(errors=ESCAPED)


def output_error() -> OSError | None:
    """Return why standard output failed, or None if everything was written so far."""
    with suppress(ValueError):  # a closed stream, or one without a number
        sys.stdout.flush()
        return _lost.get(sys.stdout.fileno())
    return None


def is_broken_pipe(error: OSError) -> bool:
    """Return whether output failed because its reader has gone."""
    return error.errno == errno.EPIPE


def tell(line: str) -> None:
    """Print a line to standard output, with escapes for what its encoding lacks. A stream that fails is ignored."""
    out, text = sys.stdout, shown(line)
    with suppress(OSError, ValueError):  # ValueError: a closed stream
        try:
            print(text)
        except UnicodeEncodeError:
            codecs.register_error(ESCAPED, _escape)
            coded = getattr(out, "encoding", None) or "ascii"
            print(text.encode(coded, ESCAPED).decode(coded))


def _raw(stream: io.TextIOWrapper) -> object:
    return getattr(stream.buffer, "raw", stream.buffer)  # unbuffered streams (python -u) have no raw one below


def _protected(stream: io.TextIOWrapper, number: int) -> io.TextIOWrapper:
    outlet = Outlet(number, "w", closefd=False)
    outlet.beneath = stream
    at_once = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(io.BufferedWriter(outlet), encoding=stream.encoding, line_buffering=at_once)


def _null(number: int) -> io.TextIOWrapper:
    """Open the null device, under the number of the stream if no other file has it."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.fstat(number)
    except OSError:
        os.dup2(null, number)
        os.close(null)
        null = number
    return open(null, "w", encoding="utf-8", errors="backslashreplace")


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Return escapes for the characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(shown(letter) if HIDDEN.match(letter) else escape(letter) for letter in lacking), error.end
