"""Tuning of arms: which points are drawn, what they are scored by, and the runs that come of it."""

import json
import re
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.agents.ppo.settings import PPOSettings
from supple.agents.sac.settings import SACSettings
from supple.engine.spec import RunSpec
from supple.experiments.history.data import Episodes, RunData, Segment
from supple.experiments.queue.queue import QueuedRun
from supple.experiments.sweeps.file import read_sweep
from supple.experiments.sweeps.search import WORST, Method, Search, score
from supple.experiments.sweeps.space import Choice, Range, Values
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.sweep import Sweep
from supple.registry.errors import UsageError
from tests.experiments.conftest import Worked

LINEAR = {"tasks": "semantic,reversal", "updates_per_task": 20, "checkpoint_every": 10, "measure_every": 10}
RATE = Range(1e-4, 1.0, log=True)
SHORT: Any = {"points": 5, "share": 0.7, "seeds": (100,)}


def good(values: Values) -> float:
    """A score with its best at a rate of 0.01."""
    return -abs(log10(values["rate"]) + 2)


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_every_arm_has_so_many_points_and_the_best_of_them(method: Method) -> None:
    search = Search({"rate": RATE, "other": Choice((1, 2))}, 10, method)
    points, best = search.choose(["rate"], good)
    assert len(points) == 10
    assert all(point.keys() == {"rate"} for point in points)
    assert best == max(points, key=good)


def test_what_comes_next_depends_on_scores_alone_and_waits_for_them() -> None:
    """A round is asked for when all scores of the one before it are known, and is the same whenever that is."""
    search = Search({"rate": RATE}, 10)
    whole, _ = search.choose(["rate"], good)
    for known in range(10):
        have = [point["rate"] for point in whole[:known]]
        points, best = search.choose(["rate"], lambda v, have=have: good(v) if v["rate"] in have else None)
        assert best is None
        assert points == whole[: min(10, known // 4 * 4 + 4)]
    assert Search({"rate": RATE}, 14).choose(["rate"], good)[0][:10] == whole  # more points are added to these


@pytest.mark.slow
def test_the_estimator_finds_more_than_chance() -> None:
    """Over 20 seeds the best of 24 points is nearer to the optimum of two parameters than with random draws."""

    def both(values: Values) -> float:
        return good(values) - abs(values["share"] - 0.3)

    def missed(method: Method) -> float:
        ranges = {"rate": RATE, "share": Range(0.0, 1.0)}
        found = (Search(ranges, 24, method, seed=seed).choose(list(ranges), both)[1] for seed in range(20))
        return float(np.mean([-both(best) for best in found if best]))

    assert missed("tpe") < 0.8 * missed("random")


def test_a_grid_is_every_combination_of_the_choices_that_an_arm_has() -> None:
    search = Search({"rate": Choice((0.1, 0.01)), "other": Choice((1, 2)), "third": Choice(("a",))}, method="grid")
    points, best = search.choose(["rate", "other"], good)
    assert points == [{"rate": rate, "other": other} for rate in (0.1, 0.01) for other in (1, 2)]
    assert best == {"rate": 0.01, "other": 1}
    assert search.choose(["rate"], lambda values: None) == ([{"rate": 0.1}, {"rate": 0.01}], None)


def test_a_point_that_failed_is_worse_than_every_other() -> None:
    def half(values: Values) -> float:
        return WORST if values["rate"] > 0.005 else good(values)

    points, best = Search({"rate": RATE}, 12).choose(["rate"], half)
    assert best is not None
    assert half(best) == max(map(half, points)) > WORST
    with pytest.raises(UsageError, match="no point of rate has a score"):
        Search({"rate": RATE}, 8).choose(["rate"], lambda values: WORST)


def test_an_arm_of_which_nothing_is_searched_is_one_point() -> None:
    assert Search({"rate": RATE}, 10).choose([], good) == ([{}], {})


# -- what points are scored by ------------------------------------------------------------------------------------


def score_of(measure: str, spec: RunSpec = RunSpec("sac", SACSettings()), **logs: Any) -> float:  # noqa: B008
    """The score of a run of two tasks, by the (step, return) of its episodes or by other logs."""
    tasks = (Segment(0, 0, 100, "a"), Segment(1, 100, 200, "b"))
    steps, returns = np.array(logs.pop("episodes", [(0.0, 0.0)])).T
    count = len(steps)
    episodes = Episodes(steps, (steps > 100).astype(int), returns, np.ones(count, int), np.zeros(count, bool))
    return score(RunData(Path(), spec, 0, tasks, episodes, **{"metrics": [], "events": [], **logs}), measure)


def test_returns_count_by_the_steps_that_they_took_to_earn() -> None:
    """Five short bad episodes weigh less than one that is long and good."""
    episodes = [*((step, 1.0) for step in range(1, 6)), (50, 9.0), (150, 7.0)]
    assert score_of("return", episodes=episodes) == pytest.approx(((9 * 1 + 11 * 9) / 20 + 7) / 2)


def test_returns_count_by_rollout_as_in_the_published_table() -> None:
    """Three short episodes of a rollout of 40 steps weigh as much as the one of the next; no rollouts, no number."""
    spec = RunSpec("ppo", PPOSettings(rollout_steps=20, num_envs=2))
    episodes = [(10, 1.0), (20, 2.0), (40, 3.0), (41, 8.0), (150, 7.0)]
    assert score_of("rollout_return", spec, episodes=episodes) == pytest.approx(((2 + 8) / 2 + 7) / 2)
    assert score_of("-rollout_return@last", spec, episodes=episodes) == -7
    uneven = [(110, 1.0), (130, 1.0), (141, 5.0)]  # the second task's first rollout ends at 140, not at 120
    assert score_of("rollout_return@last", spec, episodes=uneven) == 3
    assert np.isnan(score_of("rollout_return", episodes=episodes))


def test_a_measure_is_the_mean_over_tasks_of_what_was_logged_last() -> None:
    metrics = [{"task": 0, "loss": 3.0}, {"task": 0, "loss": 1.0}, {"task": 1, "loss": 5.0}, {"task": 1, "other": 0.0}]
    assert score_of("loss", metrics=metrics) == 3
    assert score_of("-loss", metrics=metrics, outcomes=[{"task": 0, "loss": 2.0}]) == -3.5
    assert score_of("loss@last", metrics=metrics) == 5
    assert score_of("loss@last", RunSpec("sac", SACSettings(), stop=100), metrics=metrics) == 1
    assert np.isnan(score_of("lose", metrics=metrics))


# -- the runs -----------------------------------------------------------------------------------------------------


def tuned(**changes: Any) -> Study:
    arms = ("none", "rebalance(lam={lam})@task")
    search = Search({"learning_rate": Range(0.01, 0.1, log=True), "lam": Range(1, 9)}, **SHORT)
    given = {"settings": LINEAR, "arms": arms, "seeds": (0,), "search": search, **changes}
    return Study("lin", "linear", **given)


def to_the_end(sweep: Sweep, path: Path, worked: Worked) -> tuple[list[QueuedRun], list[int]]:
    """Train all that a sweep comes to; its runs, and how many each round had."""
    rounds = []
    while True:
        jobs = sweep.begin(path)
        if not (left := sum(job.open for job in jobs)):
            return jobs, rounds
        rounds.append(left)
        worked(jobs)


@pytest.mark.slow
def test_arms_are_tuned_on_other_seeds_for_a_share_of_the_steps_and_trained_at_their_best(
    tmp_path: Path, worked: Worked
) -> None:
    path, sweep = tmp_path / "s", Sweep([tuned()])
    planned = sweep.preview(path)
    jobs, rounds = to_the_end(sweep, path, worked)
    assert rounds == [8, 2, 2]  # four of each arm, the fifth of each, and the two results
    assert len(planned) == len(jobs) == 12
    told = json.loads((path / "lin" / "tuned.json").read_text())
    for arm, points in told["arms"].items():
        assert len(points) == 5
        assert told["chosen"][arm] == max(points, key=lambda point: point["score"])["arm"]
    results = {job.spec.labels.arm: job for job in jobs if job.spec.seeds == (0,)}
    assert set(results) == set(told["chosen"].values())
    for job in jobs:
        config = json.loads((job.folder / "config.json").read_text())
        assert config["stop"] == (None if job.spec.seeds == (0,) else 28)
        assert f"learning_rate={config['settings']['learning_rate']}" in job.spec.labels.arm


@pytest.mark.slow
def test_failed_points_are_not_chosen(tmp_path: Path, worked: Worked) -> None:
    """A learning rate at which every run diverges: the sweep goes on with the others."""
    search = Search({"learning_rate": Choice((0.05, 1e30))}, method="random", **{**SHORT, "points": 6})
    jobs, _ = to_the_end(Sweep([tuned(arms=("none",), search=search)]), tmp_path / "s", worked)
    assert {job.spec.labels.arm for job in jobs if job.failed} == {"none + learning_rate=1e+30"}
    assert [job.spec.labels.arm for job in jobs if job.spec.seeds == (0,)] == ["none + learning_rate=0.05"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": (100, 1)}, "search.seeds: seed 100 is also"),
        ({"fork_at_task": 1}, "forked arms cannot be tuned"),
        ({"arms": ("rebalance(lam={lam})@0.9",)}, "@0.9 acts first at step 36, after the share (28)"),
        (
            {"search": Search({"learning_rate": RATE}, 5, share=0.4), "arms": ("none",)},
            "share 0.4 ends at step 16, within the first task",
        ),
        (
            {"search": Search({"learning_rate": RATE}, method="grid"), "arms": ("none",)},
            "search.learning_rate: give { choice = [VALUES] }, since method grid trains every combination",
        ),
        (
            {"search": Search({"learning_rate": Choice((1, 2))}, 5, "grid"), "arms": ("none",)},
            "search.points: leave it out, since method grid",
        ),
    ],
)
def test_what_cannot_be_searched_is_one_line(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as found:
        Sweep([tuned(**changes)]).begin(tmp_path / "s")
    assert "\n" not in str(found.value)
    assert not (tmp_path / "s").exists()


def test_a_file_says_what_is_searched(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(
        '[lin]\nkind = "linear"\nsearch = { points = 3, seeds = "7-8", learning_rate = { low = 1e-3, high = 1.0 } }'
    )
    assert read_sweep(file, method="random").studies[0].search == Search(
        {"learning_rate": Range(1e-3, 1.0)}, 3, "random", seeds=(7, 8)
    )
    file.write_text('[lin]\nkind = "linear"\nsearch = { method = "grid", learning_rate.choice = [1, 2] }')
    assert read_sweep(file).studies[0].search == Search({"learning_rate": Choice((1, 2))}, method="grid")
    file.write_text('[lin]\nkind = "linear"\nsearch = { points = 3, method = "gird", learning_rate.choice = [1] }')
    with pytest.raises(UsageError, match=re.escape("[lin].search.method should be one of grid, random, tpe")):
        read_sweep(file)
