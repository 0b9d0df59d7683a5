"""A new agent for every task: the reference for what can be learned at all."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.agents.dqn.settings import DQNSettings
from supple.agents.dqn.work import DQNWork
from supple.agents.ppo.settings import PPOSettings
from supple.agents.ppo.work import PPOWork
from supple.agents.sac.settings import SACSettings
from supple.agents.sac.work import SACWork
from supple.experiments import checkpoint
from supple.experiments.compare import slug
from supple.scripts import compare, train

TASKS = "--cycles 3 --num-envs 2 --eval-episodes 1 --measure-every 100 --hidden 8"
PPO = shlex.split(
    f"ppo --env CartPole-v1 --steps-per-task 160 --checkpoint-every 60 {TASKS} --rollout-steps 20 --minibatch-size 20 "
    "--epochs 2 --adapter 6 --activation rand_smooth_leaky"
)
DQN = shlex.split(
    f"dqn --env CartPole-v1 --steps-per-task 160 --checkpoint-every 60 {TASKS} --widths 8 --learning-starts 40 "
    "--replay-size 200 --batch-size 4 --exploration-steps 60 --target-period 40 --replay-ratio 0.25 --device cpu "
    "--max-episode-steps 20"
)
SAC = shlex.split(
    "sac --env Pendulum-v1 --cycles 3 --steps-per-task 160 --checkpoint-every 60 --num-envs 2 --learning-starts 20 "
    "--replay-size 400 --batch-size 8 --actor-width 8 --critic-width 8 --critic-blocks 1 --replay-ratio 0.25 "
    "--eval-episodes 1 --measure-every 100 --device cpu --compile off --max-episode-steps 20"
)
every_agent = pytest.mark.parametrize("words", [PPO, DQN, SAC], ids=["ppo", "dqn", "sac"])


def rows(run: Path, log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{log}.jsonl").read_text().splitlines()]


@every_agent
def test_a_killed_run_goes_on_to_the_same_bytes_and_its_first_task_is_that_of_any_run(
    killed: Any, same: Any, tmp_path: Path, words: list[str]
) -> None:
    plain, fresh = tmp_path / "plain", tmp_path / "fresh"
    train.main([*words, "--out", str(plain)])
    train.main([*words, "--fresh", "True", "--out", str(fresh)])
    for log in ("episodes", "metrics"):
        first = [[timeless(row) for row in rows(run, log) if row["task"] == 0] for run in (plain, fresh)]
        assert first[0] == first[1]
        later = [[timeless(row) for row in rows(run, log) if row["task"] == 1] for run in (plain, fresh)]
        assert later[0] != later[1]
    killed(["train", *words, "--fresh", "True"], tmp_path / "killed", 160, 240)  # where a task ends, and within one
    same.assert_runs(tmp_path / "killed", fresh)


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("time", "seconds")}
