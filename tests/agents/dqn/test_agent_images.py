"""DQN on images in rows: its network, its memory, compiled updates, hooks, checkpoints, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import FrameStackObservation
from torch import nn

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN
from supple.agents.dqn.sizes import RowSizes
from supple.agents.dqn.work import DQNWork
from supple.agents.trained import Trained
from supple.engine.compile import can_compile
from supple.engine.hooks.driver import HookDriver
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.envs import Picture, StepResult
from supple.interventions import parse_hook
from tests.agents.lives import live

SIZES = RowSizes(10 * 10 * 3, 3, Picture(3, 10, 10, last=True, high=1.0), bytes=True)


class Planes(gym.Env):
    """An environment of random planes, with episodes of five steps."""

    def __init__(self, shape: tuple[int, ...] = (10, 10, 3), actions: int | None = 3) -> None:
        self.observation_space = gym.spaces.Box(0, 1, shape, np.bool_)
        self.action_space = gym.spaces.Box(-1, 1, (2,)) if actions is None else gym.spaces.Discrete(actions)

    def _planes(self) -> np.ndarray:
        return self.np_random.random(self.observation_space.shape) < 0.3

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.time = 0
        return self._planes(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.time += 1
        return self._planes(), float(np.sum(action)), self.time == 5, False, {}


@pytest.fixture(scope="module", autouse=True)
def _planes() -> None:
    gym.register("Planes-v0", Planes)
    gym.register("FramesOfPlanes-v0", lambda: FrameStackObservation(Planes(), 2))


def settings(**changes: Any) -> DQNSettings:
    values: dict[str, Any] = {
        "env": "Planes-v0", "steps": 60, "num_envs": 2, "hidden": (8,), "batch_size": 8, "replay_size": 200,
        "learning_starts": 10, "exploration_steps": 20, "target_period": 20, "learning_rate": 1e-3, "device": "cpu",
        "eval_episodes": 1, "optimizer": "rmsprop", **changes,
    }  # fmt: skip
    return DQNSettings(**values)


def agent(**changes: Any) -> DQN:
    made = DQN(settings(**changes), {"Planes-v0": SIZES})
    torch.manual_seed(0)
    return made


def steps(rows: int = 2) -> Iterator[StepResult]:
    rng = np.random.default_rng(0)
    while True:
        obs = rng.integers(0, 2, (rows, SIZES.size), np.uint8)
        ended = rng.random(rows) < 0.1
        yield StepResult(obs, rng.normal(size=rows), ended, np.zeros(rows, bool), obs, [])


@pytest.mark.parametrize(("env", "channels"), [("Planes-v0", 3), ("FramesOfPlanes-v0", 6)])
def test_the_network_is_that_of_minatar(env: str, channels: int) -> None:
    work = DQNWork(settings(env=env, hidden=None))
    network = work.agent.network
    layers = nn.Sequential(
        nn.Conv2d(channels, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 3)
    )
    for theirs, ours in zip(layers.parameters(), network.parameters(), strict=True):
        theirs.data.copy_(ours)
    images = torch.randint(0, 2, (4, channels // 3, 10, 10, 3), dtype=torch.uint8)
    planes = images.movedim(-1, 2).flatten(1, 2).float()
    torch.testing.assert_close(network(images.flatten(1)), layers(planes))
    assert [layer.role for layer in network.layers()] == ["encoder", "hidden", "head"]
    work.close()


def test_the_memory_keeps_bytes() -> None:
    one = agent()
    live(one, steps(), 8, begin=True)
    assert one.experience.memory.frames.dtype == np.uint8


@pytest.mark.slow
@pytest.mark.skipif(not can_compile(), reason="torch.compile does not work here")
def test_compiled_updates_are_those_of_eager_mode_with_penalties_and_double_q() -> None:
    agents = [agent(compile=how, double_q=True, max_grad_norm=0.1) for how in ("off", "on")]
    for one in agents:
        hook = parse_hook("l2_init(strength=0.01)")
        assert hook is not None
        live(one, steps(), 12, HookDriver([hook], one.learners, lambda **_: None, 40), begin=True)
    assert agents[1].compiles
    assert agents[1].experience.taken > 10
    for eager, compiled in zip(*(one.network.parameters() for one in agents), strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_run_predicts_actions_for_images_as_the_environment_shows_them(tmp_path: Path) -> None:
    prepare(RunSpec("dqn", settings()), tmp_path / "run", print).train(lambda step: None)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert "eval/return" in rows[-1]
    trained = Trained(tmp_path / "run")
    image = np.random.default_rng(0).random((10, 10, 3)) < 0.5
    assert trained.predict(image) in (0, 1, 2)
    assert trained.predict(np.stack([image] * 4)).shape == (4,)


def test_seeds_are_stacked_if_convolutions_are_small() -> None:
    assert settings().group((0, 1, 2)) == ((0, 1, 2),)
    large = settings(encoder="minatar(channels=[64,64])")
    assert large.group((0, 1, 2)) == ((0,), (1,), (2,))
