"""The speed of a run, measured by its reports of progress."""

from collections.abc import Callable

import pytest

from supple.engine import speed
from supple.engine.speed import SpeedMeter, measure_speed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds."""
    now = [0.0]
    monkeypatch.setattr(speed.time, "monotonic", lambda: now[0])
    return now


def test_the_stretch_before_the_second_report_is_left_out(clock: list[float]) -> None:
    meter = SpeedMeter()
    for clock[0], step in ((0, 0), (100, 10)):
        meter.update(step)
        assert (meter.seconds, meter.speed, meter.step) == (0, 0, step)
    for clock[0], step in ((101, 30), (104, 90)):
        meter.update(step)
        assert meter.speed == 20
    assert meter.seconds == 4


def test_a_run_ends_once_it_has_been_measured_for_long_enough(clock: list[float]) -> None:
    reached = []

    def train(progress: Callable[[int], None]) -> None:
        for step in range(0, 100, 10):
            clock[0] += 1
            reached.append(step)
            progress(step)

    assert measure_speed(train, seconds=3).speed == 10
    assert reached == [0, 10, 20, 30, 40]
    reached.clear()
    assert measure_speed(train, seconds=3, start=20).step == 70
    assert reached[-1] == 70  # steps without updates are no reports
    assert measure_speed(train, seconds=99).step == 90
