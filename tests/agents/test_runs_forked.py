"""A fork where a task ends is what the whole run with its hooks would have been: hooks that look at the task behind it
see what they would have seen in the run that was never forked."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from supple.engine.storage.names import slug
from supple.scripts import compare, train

EWC = "ewc(strength=5,samples=16)"
PPO = shlex.split(
    "ppo --sequence inverted_pendulum,inverted_double_pendulum --steps-per-task 256 --num-envs 4 --rollout-steps 32 "
    "--minibatch-size 64 --epochs 2 --hidden 16 16 --adapter 16 --checkpoint-every 100 --measure-every 128 "
    "--eval-episodes 1 --activation rand_smooth_leaky"
)
SAC = shlex.split(
    "sac --sequence inverted_pendulum,inverted_pendulum --steps-per-task 80 --num-envs 2 --learning-starts 20 "
    "--replay-size 400 --batch-size 8 --actor-width 8 --critic-width 8 --critic-blocks 1 --replay-ratio 0.5 "
    "--eval-episodes 1 --checkpoint-every 60 --measure-every 80 --activation rand_smooth_leaky --device cpu "
    "--compile off"
)
DQN = shlex.split(
    "dqn --sequence CartPole-v1,CartPole-v1 --steps-per-task 80 --num-envs 2 --learning-starts 40 --replay-size 400 "
    "--batch-size 4 --hidden 8 8 --exploration-steps 60 --target-period 40 --replay-ratio 0.25 "
    "--eval-episodes 1 --checkpoint-every 40 --measure-every 80 --activation rand_smooth_leaky --device cpu"
)


@pytest.mark.slow
@pytest.mark.parametrize("agent", [PPO, SAC, DQN], ids=["ppo", "sac", "dqn"])
def test_a_fork_at_the_end_of_a_task_equals_the_whole_run_with_the_hook(
    here: Any, same: Any, tmp_path: Path, agent: list[str]
) -> None:
    whole, forked = tmp_path / "whole", tmp_path / "forked"
    train.main([*agent, "--hook", EWC, "--out", str(whole)])
    with here():
        compare.main([*agent, "--fork-at-task", "1", "--arm", "none", "--arm", EWC, "--out", str(forked)])
    trunk, plain, arm = (forked / "seed-0" / name for name in ("trunk", "none", slug(EWC)))
    state = same.last_state(arm)
    assert any("fisher" in name for name in state), "nothing was looked at"
    assert state == same.last_state(whole)
    assert state != same.last_state(plain)
    for log in ("episodes", "metrics", "events"):
        assert same.log(trunk, log) + same.log(arm, log) == same.log(whole, log)
