"""Restore the state of a run: whatever does not fit in a checkpoint is named with the folder that it came from."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from ...registry.errors import CheckpointError, RunError
from ...registry.schema import convert, describe_value
from .append_only import Rows

T = TypeVar("T")


@contextmanager
def restoring(checkpoints: Path) -> Iterator[None]:
    """Raise CheckpointError for any exception while a state from these checkpoints is restored in this block.

    The sums and the run of the state are right at this point, so it was written by hand or by other code. Then its
    values can have any type or shape, and each part of a run raises other exceptions for them.
    """
    try:
        yield
    except (RunError, OSError):
        raise
    except Exception as error:
        raise CheckpointError(f"{checkpoints}: not a state of this run ({type(error).__name__}: {error})") from error


def require_like(value: Any, like: T, what: str) -> T:
    """Return a value from a checkpoint, if it has the same structure as the one that it replaces.

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
    fits: T = value
    match like:
        case Tensor() | np.ndarray():
            kind = Tensor if isinstance(like, Tensor) else np.ndarray
            if isinstance(value, kind) and value.shape == like.shape and value.dtype == like.dtype:
                return fits
        case dict():
            if isinstance(value, dict) and value.keys() == like.keys():
                for key in like:
                    require_like(value[key], like[key], f"{what}.{key}")
                return fits
        case list() | tuple():
            if isinstance(value, (list, tuple)) and len(value) == len(like):
                for i, item in enumerate(like):
                    require_like(value[i], item, f"{what}[{i}]")
                return fits
        case _:
            convert(value, float if isinstance(like, float) else type(like), what)  # also one of NumPy's
            return fits
    raise ValueError(f"{what} should be {_describe(like)}, but is {_describe(value)}")


def _describe(value: Any) -> str:
    if isinstance(value, Tensor | np.ndarray):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {(*value.shape,)}"
    if isinstance(value, Rows):
        return "rows"
    if isinstance(value, dict):
        return f"an object of {', '.join(map(str, value)) or 'nothing'}"
    return describe_value(value)
