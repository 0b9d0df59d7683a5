"""How fast a run trains, measured by its reports of progress."""

import time
from collections.abc import Callable
from contextlib import suppress

FIRST = 2  # reports of progress before a measurement begins: functions are compiled, and memory is allocated once


class SpeedMeter:
    """The speed of a run, without its first stretch.

    Attributes:
        step: The step of the newest report.
        seconds: The time over which the speed has been measured so far.
        speed: Steps per second; 0 as long as nothing has been measured.
    """

    def __init__(self) -> None:
        self.reports, self.step, self.seconds, self.speed = 0, 0, 0.0, 0.0
        self._begin = (0, 0.0)  # step and time

    def update(self, step: int) -> None:
        """Note that the run is at a step."""
        self.reports, self.step, now = self.reports + 1, step, time.monotonic()
        if self.reports <= FIRST:
            self._begin = (step, now)
            return
        first, began = self._begin
        self.seconds = now - began
        self.speed = (step - first) / self.seconds if self.seconds else 0.0


class _Enough(Exception):
    """Ends a run that has been measured for long enough."""


def measure_speed(train: Callable[[Callable[[int], None]], None], seconds: float, begin: int = -1) -> SpeedMeter:
    """Train until the speed has been measured for a time, or to the end of the run.

    Args:
        train: Trains the run. It is given the function that it has to call with each step that it has reached.
        seconds: The time to measure.
        begin: Reports of steps up to this one are ignored.
    """
    meter = SpeedMeter()

    def watch(step: int) -> None:
        if step > begin:
            meter.update(step)
        if meter.seconds >= seconds:
            raise _Enough

    with suppress(_Enough):
        train(watch)
    return meter
