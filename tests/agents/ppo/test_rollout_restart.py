"""Episodes that are restarted after every rollout (`restart_episodes`)."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents.small import lines, train

pytestmark = pytest.mark.slow

RUN: dict[str, Any] = {
    "env": "Pendulum-v1", "cycles": 1, "steps_per_task": 300, "rollout_steps": 40, "checkpoint_every": 150,
    "eval_episodes": 0, "restart_episodes": True,
}  # fmt: skip


def test_every_rollout_ends_all_episodes_and_logs_the_interrupted_ones(tmp_path: Path) -> None:
    """Pendulum's own episodes have 200 steps; a rollout has 40 of each copy, the last one 30."""
    found = lines(train("ppo", tmp_path / "run", **RUN), "episodes")
    assert [(row["step"], row["length"]) for row in found] == [
        (step, length) for step, length in ((80, 40), (160, 40), (240, 40), (300, 30)) for _ in range(2)
    ]
    assert all(row["broken_off"] for row in found)
    assert len({row["return"] for row in found}) == len(found)  # each begins elsewhere


def test_episodes_that_end_by_themselves_are_not_marked(tmp_path: Path) -> None:
    run = train("ppo", tmp_path / "run", max_episode_steps=30, **RUN)
    found = [(row["length"], row.get("broken_off", False)) for row in lines(run, "episodes")]
    # The last rollout ends where the episodes end: nothing is left to be broken off.
    assert found == [*3 * [*2 * [(30, False)], *2 * [(10, True)]], *2 * [(30, False)]]
