"""The type of numbers by run, task or step."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
