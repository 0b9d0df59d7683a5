"""`--threads auto`: short trainings in processes of their own say which number of threads is fastest."""

import json
import multiprocessing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supple.engine import runs, threads
from supple.engine.kinds import find_kind
from supple.engine.machine import resources
from supple.engine.settings import RunSettings
from supple.experiments.api import train
from supple.registry.errors import RunError
from tests.conftest import Forks
from tests.experiments.test_api import LINEAR


def settings(**changed: Any) -> RunSettings:
    return find_kind("linear").settings_class()(**{**LINEAR, **changed})


def logged(run: Path) -> list[dict[str, Any]]:
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{name: value for name, value in row.items() if name != "time"} for row in rows]


@pytest.mark.parametrize(
    ("speeds", "wanted", "tried"),
    [((10, 20, 19), 2, [1, 2, 4]), ((10, 10.4, 99), 1, [1, 2]), ((1, 2, 3), 4, [1, 2, 4])],
)
def test_more_threads_are_tried_until_they_are_no_faster(
    speeds: tuple[float, ...], wanted: int, tried: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, asked = iter(speeds), []

    def one(kind: Any, settings: RunSettings, train: Any) -> float:
        asked.append(settings.threads)
        return next(given)

    monkeypatch.setattr(threads, "own_cpus", lambda: 4)
    monkeypatch.setattr(threads, "_measure_speed", one)
    chosen, line = threads.fastest(find_kind("linear"), settings(), runs._train_briefly)
    assert (chosen, asked) == (wanted, tried)
    assert f"auto: {wanted}" in line


@pytest.mark.slow
def test_what_was_chosen_is_recorded_and_nothing_of_the_trials_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "cpus", lambda: 1)
    said: list[str] = []
    train("linear", {**LINEAR, "threads": "auto"}, out=tmp_path / "run", warn=said.append)
    train("linear", {**LINEAR, "threads": 1}, out=tmp_path / "one")
    assert json.loads((tmp_path / "run/config.json").read_text())["settings"]["threads"] == 1
    assert logged(tmp_path / "run") == logged(tmp_path / "one") != []
    assert "--threads auto: 1" in said[0]
    assert not multiprocessing.active_children()
    assert {path.name for path in tmp_path.iterdir()} == {"run", "one"}


def test_a_trial_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "own_cpus", lambda: 1)
    monkeypatch.setattr(threads, "multiprocessing", SimpleNamespace(get_context=lambda method: Forks()))
    with pytest.raises(RunError, match=r"1 threads failed: .*no_such"):
        threads.fastest(find_kind("linear"), settings(hook=("no_such@0.5",)), runs._train_briefly)
