"""What an environment does wrong, as one exception whose message is one line."""

import reprlib
from typing import Any

import numpy as np

BLAMED = (Exception, SystemExit)  # an environment's own; Ctrl-C is not its fault
LONGEST = 300  # characters of an error's own words


class EnvironmentFault(RuntimeError):
    """An environment raised an exception, or did what Gymnasium's interface does not allow.

    environment: its name. what: what it did, one line.
    """

    def __init__(self, environment: str, what: str) -> None:
        super().__init__(environment, what)
        self.environment, self.what = environment, what

    def __str__(self) -> str:
        return f"{self.environment}: {self.what}"


def raised(call: str, error: BaseException) -> str:
    """Return what a call of an environment did that raised an error: `step() raised OSError: …`."""
    words = " ".join(str(error).split())[:LONGEST]
    return f"{call} raised {type(error).__name__}{words and f': {words}'}"


def shown(value: Any) -> str:
    """Return a value in a few words."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return f"an array of shape {value.shape}"
    return " ".join(reprlib.repr(value).split())


def is_numbers(value: Any, shape: tuple[int, ...]) -> bool:
    """Return whether a value is real numbers in this shape; () is a single number."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # a list with rows of different lengths, say
        return False
    return array.shape == shape and array.dtype.kind in "biuf"
