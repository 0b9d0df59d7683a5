"""The speed of a run is measured without its first stretch, for as long as was asked for."""

from collections.abc import Callable

import pytest

from supple.engine import speed
from supple.engine.speed import measure_speed


@pytest.mark.parametrize(("seconds", "last"), [(20.0, 50), (0.5, 40)])
def test_a_run_ends_when_it_has_been_measured_for_long_enough(
    seconds: float, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, steps = 0.0, list[int]()
    monkeypatch.setattr(speed.time, "monotonic", lambda: now)

    def train(progress: Callable[[int], None]) -> None:
        nonlocal now
        for step in (5, 10, 20, 30, 40, 50):  # without updates until 10; compiling until 20
            now += 1000.0 if step <= 20 else 10.0
            steps.append(step)
            progress(step)

    assert (measure_speed(train, seconds, begin=10), steps[-1]) == (1.0, last)


def test_a_run_that_ends_in_its_first_stretch_is_timed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0.0, 3.0, 5.0))
    monkeypatch.setattr(speed.time, "monotonic", lambda: next(clock))
    assert measure_speed(lambda progress: [progress(10), progress(20)], 1.0) == 4.0
