"""`--env-workers`: a run is the same to the last byte in however many processes its environments run, killed or not."""

import re
import shlex
import signal
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.agents.ppo import PPOSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.registry.errors import RunError
from tests.processes import die_when

PPO = shlex.split(
    "train ppo --sequence hopper,walker2d --steps-per-task 256 --num-envs 4 --rollout-steps 32 --epochs 1 "
    "--hidden 8 --adapter 8 --checkpoint-every 128 --measure-every 256 --eval-episodes 1 --restart-episodes True "
    '--shift "friction(low=0.5,high=2,over=200) + offset(scale=0.1)"'
)
REPLAY = "--learning-starts 40 --replay-size 400 --batch-size 4 --replay-ratio 0.1 --device cpu --eval-episodes 1"
SAC = shlex.split(
    "train sac --env Pendulum-v1 --steps 240 --num-envs 3 --checkpoint-every 120 --measure-every 240 "
    f"--max-episode-steps 30 --actor-width 8 --critic-width 8 --critic-blocks 1 {REPLAY}"
)
DQN = shlex.split(
    "train dqn --env asterix --steps 240 --num-envs 3 --checkpoint-every 120 --measure-every 240 "
    f"--max-frames 80 --hidden 8 --encoder nature(channels=[4,4,4]) {REPLAY}"
)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [PPO, SAC, DQN], ids=lambda arguments: arguments[1])
def test_runs_are_the_same_in_any_number_of_processes_and_after_kills(
    tmp_path: Path, same: Any, nursery: Any, arguments: list[str]
) -> None:
    if arguments is DQN:
        pytest.importorskip("ale_py", reason="ale-py is an extra")
    one, other = tmp_path / "one", tmp_path / "other"
    assert nursery.run(*arguments, "--out", one) == 0, nursery.stderr()
    workers = [*arguments, "--env-workers", 2 if arguments is PPO else 1]
    if arguments is PPO:  # splitting and resuming are the same for all
        saved = other / f"checkpoints/{256:012}"
        assert nursery.run(*workers, "--out", other, first=partial(die_when, saved.exists)) == -signal.SIGKILL
    assert nursery.run(*(["resume", other] if other.exists() else [*workers, "--out", other])) == 0, nursery.stderr()
    same.assert_runs(other, one)


class Failing(gym.Env):
    """An environment that fails in its 40th step."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    count = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(1 if self.count == 40 else 3, np.float32), 1.0, False, self.count % 10 == 0, {}


@pytest.mark.slow
def test_a_fault_in_a_worker_is_reported_as_without_workers(tmp_path: Path) -> None:
    gym.register("Failing-v0", entry_point=Failing)
    told = []
    for workers in (0, 1):
        settings = PPOSettings(
            env="Failing-v0", steps=200, num_envs=2, rollout_steps=25, minibatch_size=25, hidden=(8,),
            env_workers=workers, eval_episodes=0,
        )  # fmt: skip
        with pytest.raises(RunError) as error:
            prepare(RunSpec("ppo", settings), tmp_path / str(workers)).train()
        told.append(str(error.value))
    assert told[0] == told[1]
    assert re.match(r"Failing-v0: step\(\) returned .* shape \(1,\) as observation, not one of Box", told[0])
