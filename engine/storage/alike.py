"""Compare values from a checkpoint with those that they replace: names, shapes and types must be the same."""

import sys
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from .append_only import Rows
from .schema import shown

T = TypeVar("T")
TENSORS = (Tensor, np.ndarray)


def alike(value: Any, like: T, what: str) -> T:
    """Return `value` if it has the same structure as `like`.

    That is: a dict with the same keys, a list of the same length, a tensor or array of the same shape and dtype, and
    otherwise a value of the same type, where an integer is accepted as a float. Updates are not safe on tensors of
    another shape: a fused one may read beyond their ends.

    Args:
        value: The value from a checkpoint.
        like: The value that it replaces.
        what: Name of the value in error messages.

    Raises:
        ValueError: A part differs; the message names the first one.
    """
    problem = _difference(value, like, what)
    if problem:
        raise ValueError(problem)
    fits: T = value
    return fits


def _difference(value: Any, like: Any, what: str) -> str:
    if isinstance(like, TENSORS):
        kind = next(kind for kind in TENSORS if isinstance(like, kind))
        if isinstance(value, kind) and value.shape == like.shape and value.dtype == like.dtype:
            return ""
        return f"{what} should be {_words(like)}, but is {_words(value)}"
    if isinstance(like, dict):
        if isinstance(value, dict) and value.keys() == like.keys():
            return next(filter(None, (_difference(value[key], like[key], f"{what}.{key}") for key in like)), "")
    elif isinstance(like, (list, tuple)):
        if isinstance(value, (list, tuple)) and len(value) == len(like):
            parts = (_difference(value[i], each, f"{what}[{i}]") for i, each in enumerate(like))
            return next(filter(None, parts), "")
    elif isinstance(like, float):
        if type(value) in (int, float) and abs(value) <= sys.float_info.max:
            return ""
    elif type(value) is type(like):
        return ""
    return f"{what} should be {_words(like)}, but is {_words(value)}"


def _words(value: Any) -> str:
    if isinstance(value, TENSORS):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {(*value.shape,)}"
    if isinstance(value, Rows):
        return "rows"
    if isinstance(value, dict):
        return f"an object of {', '.join(map(str, value)) or 'nothing'}"
    return shown(value) if value is None or isinstance(value, (bool, int, float, str, list)) else type(value).__name__
