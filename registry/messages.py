"""An exception or a value in one line, for messages."""

import reprlib
import shlex
from collections.abc import Mapping
from pathlib import Path

LETTERS = 300  # of an exception's message that are shown


def one_line(error: BaseException) -> str:
    """Return an exception in one line: its type, and the first line of its message."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:LETTERS]}" if text else type(error).__name__


def summary(value: object) -> str:
    """Return a short description of a value in one line."""
    if (shape := getattr(value, "shape", None)) is not None and getattr(value, "dtype", None) is not None:
        return f"an array of {value.dtype} with the shape {tuple(shape)}"  # type: ignore[attr-defined]
    if value is None or isinstance(value, Mapping | str | bytes | list | tuple | set | int | float | complex):
        return " ".join(reprlib.repr(value).split())
    return f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"


def quoted(word: str | Path) -> str:
    """Return a word as a shell reads it."""
    return shlex.quote(str(word))
