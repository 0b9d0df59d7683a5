"""How fast a run trains, measured by its reports of progress."""

import time
from collections.abc import Callable
from contextlib import suppress

FIRST = 2  # reports of progress before a measurement begins: functions are compiled, and memory is allocated once


class _Enough(Exception):
    """Ends a run that has been measured for long enough."""


def measure_speed(train: Callable[[Callable[[int], None]], None], seconds: float, begin: int = -1) -> float:
    """Train until the speed has been measured for a time, or to the end of the run, and return the steps per second.

    A run that ends within its first stretch is timed as a whole.

    Args:
        train: Trains the run. It is given the function that it has to call with each step that it has reached.
        seconds: The time to measure.
        begin: Reports of steps up to this one are ignored.
    """
    reports = [(0, time.monotonic())]  # step and time, of the start of the whole and then of each report

    def watch(step: int) -> None:
        now = time.monotonic()
        if step > begin:
            reports.append((step, now))
        if len(reports) > FIRST and now - reports[FIRST][1] >= seconds:
            raise _Enough

    with suppress(_Enough):
        train(watch)
    first, began = reports[FIRST if len(reports) > FIRST + 1 else 0]
    last, ended = reports[-1]
    return (last - first) / (ended - began)
