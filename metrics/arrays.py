"""Arrays of numbers by run, task or step."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def as_array(values: ArrayLike) -> Array:
    """Return numbers as an array of float64, which is not copied if it is one already."""
    return np.asarray(values, dtype=np.float64)
