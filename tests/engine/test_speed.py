"""The speed of a run is measured without its first stretch, for as long as was asked for."""

from collections.abc import Callable

import pytest

from supple.engine import speed
from supple.engine.speed import measure_speed


@pytest.mark.parametrize(
    ("seconds", "last", "wanted"),
    [(20.0, 50, 1.0), (100.0, 50, 1.0), (10.0, 40, 1.0), (0.5, 40, 1.0)],
)
def test_a_run_ends_when_it_has_been_measured_for_long_enough(
    seconds: float, last: int, wanted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, steps = 0.0, list[int]()
    monkeypatch.setattr(speed.time, "monotonic", lambda: now)

    def train(progress: Callable[[int], None]) -> None:
        nonlocal now
        for step in (5, 10, 20, 30, 40, 50):  # without updates until 10; compiling until 20
            now += 1000.0 if step <= 20 else 10.0
            steps.append(step)
            progress(step)

    meter = measure_speed(train, seconds, begin=10)
    assert (meter.speed, steps[-1]) == (wanted, last)


def test_two_reports_are_too_few_for_a_speed() -> None:
    def train(progress: Callable[[int], None]) -> None:
        progress(10)
        progress(20)

    meter = measure_speed(train, 1.0)
    assert (meter.step, meter.seconds, meter.speed) == (20, 0.0, 0.0)
