"""How often the networks of a comparison are built: once for the hooks of each arm, and once for each run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supple.engine import runs
from supple.engine.kinds import Kind
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.engine.storage.lock import Held, Lock
from supple.experiments import Space, Study, Sweep
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.folder import create
from supple.experiments.comparisons.grid import make_points
from supple.tracks.linear.settings import LinearSettings
from supple.tracks.linear.work import LinearWork

SETTINGS = LinearSettings(tasks="semantic,reversal", updates_per_task=10, measure_every=10)
ARMS = ("none", "snp@task", "rebalance(lam=5)@task", "l2_init(strength=1e-3)", "reset(what=head)@task")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The settings of everything that is built, in order."""
    settings: list[Any] = []
    builder = Kind.builder

    def count(kind: Kind) -> Callable[[Any], Any]:
        def build(values: Any) -> Any:
            settings.append(values)
            return builder(kind)(values)

        return build

    monkeypatch.setattr(Kind, "builder", count)
    return settings


def test_each_arm_is_checked_once_on_a_network_of_its_own(built: list[Any], tmp_path: Path) -> None:
    comparison = Comparison("linear", SETTINGS, make_points(ARMS), (0, 1, 2, 3, 4), fork_at=0.5)
    create(tmp_path / "c", comparison, jobs=1)
    assert len(built) == len(ARMS)


@pytest.mark.slow
def test_a_run_builds_its_networks_once(built: list[Any], tmp_path: Path, worked: Callable[[Any], list[str]]) -> None:
    comparison = Comparison("linear", SETTINGS, make_points(("none", "snp@task")), (0, 1), fork_at=0.5)
    queue = create(tmp_path / "c", comparison, jobs=1).queue(tmp_path / "c")
    assert len(worked(queue)) == len(queue) == 6
    assert len(built) == 2 + 6


def test_variants_of_one_network_share_it_and_others_have_their_own(built: list[Any], tmp_path: Path) -> None:
    vary = {"learning_rate": [0.1, 0.2, 0.3], "n_hidden": [8, 6]}
    comparison = Comparison("linear", SETTINGS, make_points(ARMS[:2], vary), (0,), fork_at=0.0)
    resolved = comparison.resolve()
    assert len({settings.n_hidden for settings in built}) == 2
    assert [point.variant for point in resolved.points[::2]] == [
        {"learning_rate": rate, "n_hidden": size} for rate in vary["learning_rate"] for size in vary["n_hidden"]
    ]
    assert resolved.settings.learning_rate == SETTINGS.learning_rate  # type: ignore[attr-defined]


def test_many_points_of_one_network_build_it_once(built: list[Any], tmp_path: Path) -> None:
    space = Space({"learning_rate": [rate / 100 for rate in range(1, 21)]})
    settings = {"tasks": SETTINGS.tasks, "updates_per_task": 10}
    queue = Sweep([Study("rates", "linear", settings=settings, arms=("none",), space=space)]).preview(tmp_path / "s")
    assert (len(queue), len(built)) == (20, 1)
    assert queue[-1].spec.settings == replace(queue[0].spec.settings, learning_rate=0.2)  # type: ignore[type-var]


def test_networks_are_released_where_another_process_trains_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[LinearWork] = []
    monkeypatch.setattr(LinearWork, "close", lambda work: closed.append(work))
    monkeypatch.setattr(runs, "PATIENCE", 0.0)
    prepared = prepare(RunSpec("linear", SETTINGS), tmp_path / "run")
    with Lock(tmp_path / "run"), pytest.raises(Held):
        prepared.train()
    assert len(closed) == 1
