"""The function from which HumanoidBench's rewards are built: how close a number is to an interval, from 0 to 1."""

import math
from typing import Literal

_GAUSSIAN = math.sqrt(-2.0 * math.log(0.1))  # makes the Gaussian 0.1 at the margin


def tolerance(
    x: float,
    low: float,
    high: float = math.inf,
    margin: float = 0.0,
    sigmoid: Literal["gaussian", "linear", "quadratic"] = "gaussian",
) -> float:
    """Return 1 if x lies in [low, high], and a value in [0, 1) that falls with the distance if it does not.

    This is `rewards.tolerance` of dm_control (Tassa et al. 2018) with the three sigmoids that HumanoidBench uses. With
    d, the distance of x to the interval divided by the margin, they are

        gaussian   0.1^(d²)
        linear     max(0, 1 − d)
        quadratic  max(0, 1 − d²)

    NaN gives NaN. The arguments are floats and not arrays: floats take a twentieth of NumPy's time, and each step makes
    ten calls.

    Args:
        x: The number.
        low: The lower end of the interval, in the unit of x.
        high: The upper end of the interval, in the unit of x.
        margin: The distance, in the unit of x, at which the value is 0.1 or 0. 0: the value is 0 outside the interval.
        sigmoid: How the value falls.
    """
    if low <= x <= high:
        return 1.0
    if math.isnan(x):
        return math.nan
    if margin == 0.0:
        return 0.0
    d = (low - x if x < low else x - high) / margin
    if sigmoid == "gaussian":
        return math.exp(-0.5 * (d * _GAUSSIAN) ** 2)
    return max(0.0, 1.0 - (d if sigmoid == "linear" else d * d))


def quietness(values: list[float], margin: float) -> float:
    """Return the mean of tolerance(x, 0, 0, margin, "quadratic") over x in `values`."""
    inside = [x / margin for x in values if -margin < x < margin]
    return (len(inside) - sum(d * d for d in inside)) / len(values)
