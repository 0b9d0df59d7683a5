"""Restore the state of a run: whatever does not fit in a checkpoint is named with the folder that it came from."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from supple.registry.errors import CheckpointError, RunError

T = TypeVar("T")


@contextmanager
def restoring(checkpoints: Path) -> Iterator[None]:
    """Raise CheckpointError for any exception while a state from these checkpoints is restored in this block.

    The sums and the run of the state are right at this point, so that the code differs from that which saved it, such
    as a plug-in's.
    """
    try:
        yield
    except (RunError, OSError):
        raise
    except Exception as error:
        raise CheckpointError(f"{checkpoints}: not a state of this run ({type(error).__name__}: {error})") from error


def require_like(value: Any, like: T, what: str) -> T:
    """Return a value from a checkpoint, if the tensors and arrays in it have the shapes and dtypes of those in `like`.

    Updates are not safe on tensors of another shape: a fused one may read beyond their ends.

    Args:
        value: The value from a checkpoint.
        like: The value that it replaces: a tensor, an array, or dicts and lists of such.
        what: Name of the value in error messages.

    Raises:
        ValueError: A tensor differs; the message names the first one.
    """
    if isinstance(like, Tensor | np.ndarray):
        kind = Tensor if isinstance(like, Tensor) else np.ndarray
        if not isinstance(value, kind) or (value.shape, value.dtype) != (like.shape, like.dtype):
            raise ValueError(f"{what} should be {_describe(like)}, but is {_describe(value)}")
    elif isinstance(like, dict | list | tuple):
        if len(value) != len(like):
            raise ValueError(f"{what} should have {len(like)} entries, but has {len(value)}")
        for key in like if isinstance(like, dict) else range(len(like)):
            require_like(value[key], like[key], f"{what}.{key}")
    return value


def _describe(value: Any) -> str:
    if isinstance(value, Tensor | np.ndarray):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {(*value.shape,)}"
    return type(value).__name__
