"""Physics that explodes in the middle of a run."""

import json
import math
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from supple.agents.ppo import PPOSettings
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.experiments.history.logs import read_log
from supple.registry.errors import RunError

BAD = (math.nan, -math.inf, math.inf)


class Fragile(gym.Env):
    """An environment whose reward is NaN in every fifth step."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1, 1, 3), {}

    def step(self, action):
        self.t += 1
        reward = BAD[int(self.np_random.integers(3))] if self.t == 5 else 1.0
        return self.np_random.uniform(-1, 1, 3), reward, False, False, {}


@pytest.fixture
def fragile():
    gym.register("Fragile-v0", entry_point=Fragile, max_episode_steps=100)
    yield "Fragile-v0"
    del gym.registry["Fragile-v0"]


def test_an_explosion_ends_the_episode_is_counted_and_the_run_goes_on(tmp_path: Path, fragile: str) -> None:
    settings = PPOSettings(
        env=fragile, steps=200, num_envs=2, rollout_steps=25, minibatch_size=25, epochs=1, hidden=(8,), adapter=4
    )
    prepare(RunSpec("ppo", settings), tmp_path / "run").close()
    with pytest.warns(UserWarning, match="the physics exploded"):
        open_run(tmp_path / "run", print).train(lambda step: None)

    def lines(name: str) -> list[dict]:
        return [json.loads(line) for line in (tmp_path / "run" / f"{name}.jsonl").read_text().splitlines()]

    episodes, explosions = lines("episodes"), [e for e in lines("events") if e["event"] == "explosion"]
    assert len(episodes) == 200 / 5  # every episode ends in its fifth step, to the end of the run
    assert all(e["exploded"] and e["length"] == 5 and e["return"] == 4.0 for e in episodes)
    assert len(explosions) == len(episodes)
    assert {str(e["reward"]) for e in explosions} == {"nan", "inf", "-inf"}
    assert [e["step"] for e in explosions] == [e["step"] for e in episodes]
    assert len(read_log(tmp_path / "run", "events")) >= len(explosions)  # reports read what runs write
    metrics = lines("metrics")
    assert metrics[-1]["step"] == 200
    assert all(math.isfinite(value) for line in metrics for value in line.values())


@pytest.mark.slow
def test_a_network_that_diverges_stops_the_run_in_one_line(tmp_path: Path) -> None:
    settings = PPOSettings(env="inverted_pendulum", steps=256, num_envs=2, rollout_steps=32, learning_rate=1e30)
    prepare(RunSpec("ppo", settings), tmp_path / "run").close()
    with pytest.raises(
        RunError,
        match=r"\(ppo, seed 0\): training diverged by step \d+: on InvertedPendulum-v5 the loss is not finite; ",
    ):
        open_run(tmp_path / "run", print).train(lambda step: None)
