"""Episodes that are restarted after every rollout (`restart_episodes`)."""

import shlex
from pathlib import Path

import pytest

from supple.scripts import train
from tests.agents.small import lines

pytestmark = pytest.mark.slow

RUN = shlex.split(
    "ppo --env Pendulum-v1 --steps 300 --num-envs 2 --rollout-steps 40 --minibatch-size 40 --epochs 1 --hidden 8 "
    "--adapter 0 --eval-episodes 0 --measure-every 100 --checkpoint-every 150"
)


def test_every_rollout_ends_all_episodes_and_logs_the_interrupted_ones(tmp_path: Path) -> None:
    """Pendulum's own episodes have 200 steps; a rollout has 40 of each copy, the last one 30."""
    train.main([*RUN, "--restart-episodes", "True", "--out", str(tmp_path / "run")])
    found = lines(tmp_path / "run", "episodes")
    assert [(row["step"], row["length"]) for row in found] == [
        (step, length) for step, length in ((80, 40), (160, 40), (240, 40), (300, 30)) for _ in range(2)
    ]
    assert all(row["broken_off"] for row in found)
    assert len({row["return"] for row in found}) == len(found)  # each begins elsewhere


def test_episodes_that_end_by_themselves_are_not_marked(tmp_path: Path) -> None:
    arguments = [*RUN, "--restart-episodes", "True", "--max-episode-steps", "30"]
    train.main([*arguments, "--out", str(tmp_path / "run")])
    found = [(row["length"], row.get("broken_off", False)) for row in lines(tmp_path / "run", "episodes")]
    # The last rollout ends where the episodes end: nothing is left to be broken off.
    assert found == [*3 * [*2 * [(30, False)], *2 * [(10, True)]], *2 * [(30, False)]]
