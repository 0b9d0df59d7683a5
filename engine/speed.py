"""How fast a run trains, measured by its reports of progress."""

import time
from collections.abc import Callable
from contextlib import suppress


class SpeedMeter:
    """The speed of a run, measured from its second report of progress on: before that, functions may be compiled.

    Attributes:
        seconds: For how long the speed has been measured.
        step: The last step that was reported.
    """

    def __init__(self) -> None:
        self.step, self.seconds = 0, 0.0
        self._reports, self._first_step, self._start = 0, 0, 0.0

    def update(self, step: int) -> None:
        """Note the step that the run has reached."""
        now = time.monotonic()
        self._reports += 1
        if self._reports <= 2:
            self._first_step, self._start = step, now
        self.step, self.seconds = step, now - self._start

    @property
    def speed(self) -> float:
        """Steps per second; 0 if nothing has been measured yet."""
        return (self.step - self._first_step) / self.seconds if self.seconds else 0.0


class _MeasuredEnough(Exception):
    """A run has been measured for long enough."""


def measure_speed(train: Callable[[Callable[[int], None]], object], seconds: float, start: int = -1) -> SpeedMeter:
    """Train a run until its speed has been measured for some seconds, or to its end.

    Args:
        train: Trains the run, and calls the function that it is given with the steps that it reaches.
        seconds: For how long the speed is measured.
        start: The last step of a stretch without updates, whose reports do not count.
    """
    meter = SpeedMeter()

    def watch(step: int) -> None:
        if step > start:
            meter.update(step)
            if meter.seconds >= seconds:
                raise _MeasuredEnough

    with suppress(_MeasuredEnough):
        train(watch)
    return meter
