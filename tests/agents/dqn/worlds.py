"""A small DQN agent in artificial worlds: stacks of frames, images in rows as MinAtar's, and vectors."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN
from supple.agents.dqn.network import Sizes
from supple.agents.offpolicy.replay import ReplayLayout
from supple.envs import Picture, StepResult
from tests.agents.lives import live, vectors

PIXELS = Sizes(ReplayLayout((36, 36), np.uint8, 4, actions=3), Picture(4, 36, 36))
VECTORS = Sizes(ReplayLayout((5,), np.float32, actions=3))
IMAGES = Sizes(ReplayLayout((300,), np.uint8, actions=3), Picture(3, 10, 10, last=True, high=1.0))
ENCODERS = {PIXELS: "nature(channels=[8,8,8])", IMAGES: "minatar(channels=[4])", VECTORS: "auto"}


def agent_with(space: Sizes = PIXELS, **changes: Any) -> DQN:
    """Return an agent whose random activations are seeded."""
    values: dict[str, Any] = {
        "env": "a", "steps": 1_000, "num_envs": 2, "hidden": (16, 8), "batch_size": 8, "replay_size": 400,
        "learning_starts": 0, "exploration_steps": 100, "target_period": 1_000, "learning_rate": 1e-3,
        "encoder": ENCODERS[space], "device": "cpu", **changes,
    }  # fmt: skip
    agent = DQN(DQNSettings(**values), {"a": space})
    torch.manual_seed(agent.settings.seed)
    return agent


def world(space: Sizes = PIXELS, rows: int = 2, seed: int = 0) -> Iterator[StepResult]:
    """Yield steps with random observations and rewards, in which episodes are terminated and truncated."""
    if space is VECTORS:
        yield from vectors(VECTORS.size, rows)
    rng = np.random.default_rng(seed)
    seen = np.zeros((rows, 4, 36, 36), np.uint8)
    while True:
        if space is PIXELS:
            final = np.concatenate([seen[:, 1:], rng.integers(0, 256, (rows, 1, 36, 36), np.uint8)], 1)
        else:
            final = rng.integers(0, 2, (rows, space.size), np.uint8)
        terminated, truncated = rng.random((2, rows)) < 0.1
        seen = final.copy()
        if space is PIXELS:
            seen[terminated | truncated, :-1] = 0
        yield StepResult(seen, 5 * rng.normal(size=rows), terminated, truncated, final, [])


def lived(space: Sizes = VECTORS, count: int = 20, **changes: Any) -> DQN:
    """Return an agent that has made some decisions."""
    agent = agent_with(space, **changes)
    live(agent, world(space), count, begin=True)
    return agent
