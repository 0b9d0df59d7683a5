"""A small SAC agent in artificial worlds: vectors, images, and numbers after an image."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.envs import StepResult, picture_of
from tests.agents.lives import live

D, A = 5, 2
CONTROL = Control(D, (-1.0, -0.5), (1.0, 2.0))
PICTURE = picture_of(spaces.Box(0, 255, (3, 8, 8), np.uint8))
IMAGES = Control(PICTURE.size, (-1.0,) * A, (1.0,) * A, PICTURE, "uint8")
SMALL: dict[str, Any] = {"encoder": "minatar(channels=[4])", "network": "mlp", "num_envs": 1}  # for images


def agent_with(space: Control | Mapping[str, Control] = CONTROL, **changes: Any) -> SAC:
    """Return an agent of these environments, or of one; with heads by environment, of two equal ones."""
    values: dict[str, Any] = {
        "env": "a", "steps": 10_000, "num_envs": 2, "action_repeat": 1, "replay_ratio": 1.0, "batch_size": 8,
        "replay_size": 400, "learning_starts": 10, "actor_width": 8, "critic_width": 8, "critic_blocks": 1,
        "hidden": (8, 8), "learning_rate": 1e-3, "device": "cpu", "compile": "off", **changes,
    }  # fmt: skip
    if isinstance(space, Control):
        space = dict.fromkeys(("a", "b") if "heads" in changes else ("a",), space)
    return SAC(SACSettings(**values), space)


def world(space: Control = CONTROL, rows: int = 2, seed: int = 0) -> Iterator[StepResult]:
    """Yield steps with random pixels and numbers far from 0, in which episodes are terminated and truncated."""
    rng, pixels = np.random.default_rng(seed), space.picture.size if space.picture else 0
    numbers = space.observation - pixels

    def seen() -> np.ndarray:
        others = 100 + rng.normal(size=(rows, numbers)) * np.linspace(0.1, 4, numbers)
        both = np.concatenate([rng.integers(0, 256, (rows, pixels)), others], 1)
        return both.astype(space.dtype if pixels else np.float64)

    while True:
        terminated, truncated, final = rng.random(rows) < 0.1, rng.random(rows) < 0.1, seen()
        obs = np.where((terminated | truncated)[:, None], seen(), final)
        yield StepResult(obs, rng.normal(size=rows), terminated, truncated, final, [])


def lived(space: Control = CONTROL, count: int = 15, **changes: Any) -> tuple[SAC, Iterator[StepResult]]:
    """Return an agent that has made some decisions, and the steps that follow."""
    agent = agent_with(space, **changes)
    steps = world(space, agent.settings.num_envs)
    live(agent, steps, count, begin=True)
    return agent, steps
