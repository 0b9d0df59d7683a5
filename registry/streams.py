"""Standard output and error that never raise: what cannot be written is dropped, and what cannot be encoded is spelt.

Output fails for reasons that are none of a run's: the reader of a pipe has gone (`supple train … | head -1`), the disk
with the log is full, the terminal was closed. Code that prints need not know of it; `lost` says afterwards what failed.
"""

import codecs
import errno
import io
import os
import select
import sys
from contextlib import suppress

from .shown import HIDDEN, shown

SPELT = "supple.spelt"  # the name of the error handler
# how this library's own signs are spelt in encodings that lack them
SIGNS = {
    "−": "-", "–": "-", "—": "-", "·": "-", "…": "...", "×": "x", "→": "->", "≤": "<=", "≥": ">=", "≈": "~", "±": "+-",
    "’": "'", "‘": "'", "“": '"', "”": '"', "✓": "v", "✗": "x", "λ": "lambda", "τ": "tau", "σ": "sigma", "φ": "phi",
    "γ": "gamma", "Δ": "Delta", "∇": "grad", "²": "^2", "¹": "^1", "₁": "_1", "₂": "_2", "′": "'", "″": "''", "µ": "u",
    "─": "-", "│": "|", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "━": "-",
}  # fmt: skip

_lost: dict[int, OSError] = {}  # file descriptor → why its output failed


class Outlet(io.FileIO):
    """A file descriptor to write to. From the first failure on, it is the null device for all that write to it."""

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


def steady() -> None:
    """Make this process's standard output and error streams that never raise. A closed one becomes the null device."""
    codecs.register_error(SPELT, _spell)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # the shell closed it, as by `>&-`
            setattr(sys, name, _null(number))
        elif isinstance(stream, io.TextIOWrapper):
            if isinstance(raw := _raw(stream), io.FileIO) and not isinstance(raw, Outlet):
                with suppress(OSError):
                    stream.flush()
                setattr(sys, name, _steadied(stream, raw.fileno()))
            getattr(sys, name).reconfigure(errors=SPELT)


def lost() -> OSError | None:
    """Return why standard output failed, or None if everything was written so far."""
    with suppress(ValueError):  # a closed stream
        sys.stdout.flush()
    return _lost.get(1)


def broken_pipe(error: OSError) -> bool:
    """Return whether output failed because its reader has gone."""
    return error.errno == errno.EPIPE


def tell(line: str) -> None:
    """Print a line to standard output, spelling what its encoding lacks. It never raises because of the stream."""
    out, text = sys.stdout, shown(line)
    with suppress(OSError, ValueError):  # ValueError: a closed stream
        try:
            print(text)
        except UnicodeEncodeError:
            codecs.register_error(SPELT, _spell)
            coded = getattr(out, "encoding", None) or "ascii"
            print(text.encode(coded, SPELT).decode(coded))


def _raw(stream: io.TextIOWrapper) -> object:
    return getattr(stream.buffer, "raw", stream.buffer)  # unbuffered streams (python -u) have no raw one below


def _steadied(stream: io.TextIOWrapper, number: int) -> io.TextIOWrapper:
    buffer = io.BufferedWriter(Outlet(number, "w", closefd=False))
    at_once = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(buffer, encoding=stream.encoding, line_buffering=at_once)


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


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Return how to write the characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_spelt, error.object[error.start : error.end])), error.end


def _spelt(letter: str) -> str:
    if HIDDEN.fullmatch(letter):
        return shown(letter)
    return SIGNS.get(letter) or letter.encode("unicode_escape").decode()
