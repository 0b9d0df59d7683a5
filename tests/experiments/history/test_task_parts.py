"""The parts of a run's tasks: what ended in each, and what was measured there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from supple.agents.ppo.settings import PPOSettings
from supple.engine.spec import RunSpec
from supple.experiments.history.data import Episodes, RunData, Segment
from supple.experiments.history.task_parts import mean_by_rollout, parts_of
from supple.registry.errors import UsageError

ENDS = np.array([10.0, 50, 60, 100, 150])
RUN = RunData(
    Path(),
    RunSpec("ppo", PPOSettings(rollout_steps=25, num_envs=2)),
    0,
    (Segment(0, 0, 100, "a", env="A-v0"), Segment(1, 100, 200, "b"), Segment(2, 200, 300, "c")),
    Episodes(
        ENDS,
        np.array([0, 0, 0, 0, 1]),
        np.array([1.0, 3, 5, 7, 9]),
        np.array([10.0, 40, 10, 40, 50]),
        np.zeros(5, bool),
    ),
    [{"step": 50, "task": 0, "q": 2.0}, {"step": 80, "task": 0, "q": 5.0}, {"step": 100, "task": 0, "q": 4.0}],
    [],
)


LATER = Episodes(
    np.array([110.0, 150, 170, 200]), np.ones(4, int), np.array([1.0, 1, 4, 8]), np.ones(4), np.zeros(4, bool)
)


def test_an_episode_counts_in_the_part_in_which_it_ends() -> None:
    first, second, third, fourth = parts_of(RUN, 2)
    assert [row["episodes"] for row in (first, second, third, fourth)] == [2, 2, 1, 0]
    assert [first["return"], second["return"], third["return"]] == [2, 6, 9]
    assert np.isnan(fourth["return"])
    assert (second["task"], second["part"], second["env"], third["env"]) == (0, 1, "A-v0", "b")


def test_tasks_that_have_not_begun_have_no_rows() -> None:
    assert [row["task"] for row in parts_of(RUN)] == [0, 1]


def test_measurements_and_goals_are_those_of_the_part() -> None:
    first, second, third, _ = parts_of(RUN, 2, ["q"], limit=40)
    assert [first["q.last"], second["q.last"], second["q.lowest"], second["q.highest"]] == [2, 4, 4, 5]
    assert np.isnan(third["q.last"])
    assert [first["reached"], second["reached"], third["reached"]] == [0.5, 0.5, 0]


def test_rollouts_count_alike_however_many_episodes_end_in_them() -> None:
    assert [row["rollout_return"] for row in parts_of(RUN)] == [(2 + 6) / 2, 9]
    assert np.isnan(mean_by_rollout(np.zeros(0), np.zeros(0), 50))


def test_each_task_begins_a_rollout() -> None:
    """The last rollout of the first task has 40 steps instead of 60, so that the next ones end at 160 and 200."""
    run = replace(RUN, spec=RunSpec("ppo", PPOSettings(rollout_steps=30, num_envs=2)), episodes=LATER)
    assert [row["rollout_return"] for row in parts_of(run)][1] == ((1 + 1) / 2 + (4 + 8) / 2) / 2


def test_no_part_is_refused() -> None:
    with pytest.raises(UsageError, match="needs at least 1 part of each task, got 0"):
        list(parts_of(RUN, 0))
