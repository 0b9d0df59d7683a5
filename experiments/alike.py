"""What was read from a checkpoint, compared with what is there to take it up: the same names, shapes and types."""

import sys
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from .rows import Rows
from .typed import shown

T = TypeVar("T")
TENSORS = (Tensor, np.ndarray)


def alike(value: Any, like: T, what: str) -> T:
    """Return `value` if it is like `like`: a dict of the same names, a list as long, a tensor or an array of the same
    shape and type, a number of the same kind (an integer passes for a float), or of the same type otherwise.

    No update is safe on tensors of another shape, and a fused one may read beyond their ends.
    what: what the message calls the value. Raises ValueError naming the first part that differs.
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
        return f"{what} should be {_words(like)}, and is {_words(value)}"
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
    return f"{what} should be {_words(like)}, and is {_words(value)}"


def _words(value: Any) -> str:
    if isinstance(value, TENSORS):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {(*value.shape,)}"
    if isinstance(value, Rows):
        return "rows"
    if isinstance(value, dict):
        return f"an object of {', '.join(map(str, value)) or 'nothing'}"
    return shown(value) if value is None or isinstance(value, (bool, int, float, str, list)) else type(value).__name__
