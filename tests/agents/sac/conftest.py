"""A small SAC agent in an artificial world, and copies of its state: the fixture `small`."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.envs import StepResult
from tests.agents.lives import NO_HOOKS, live
from tests.agents.states import apply, changed, everything, saved

D, A = 5, 2
CONTROL = Control(D, (-1.0, -0.5), (1.0, 2.0))


def agent_with(control: Control = CONTROL, **changes: Any) -> SAC:
    values: dict[str, Any] = {
        "env": "a", "steps": 10_000, "num_envs": 2, "action_repeat": 1, "replay_ratio": 1.0, "batch_size": 8,
        "replay_size": 400, "learning_starts": 10, "actor_width": 8, "critic_width": 8, "critic_blocks": 1,
        "hidden": (8, 8), "learning_rate": 1e-3, "device": "cpu", "compile": "off", **changes,
    }  # fmt: skip
    return SAC(SACSettings(**values), {"a": control})


def world(num_envs: int = 2, seed: int = 0, dtype: type = np.float64) -> Iterator[StepResult]:
    """Yield steps with random rewards and observations far from 0, in which episodes are terminated and truncated."""
    rng = np.random.default_rng(seed)

    def observations() -> np.ndarray:
        return (100 + rng.normal(size=(num_envs, D)) * [0.1, 1, 2, 3, 4]).astype(dtype)

    while True:
        terminated, truncated = rng.random(num_envs) < 0.1, rng.random(num_envs) < 0.1
        final = observations()
        obs = np.where((terminated | truncated)[:, None], observations(), final)
        yield StepResult(obs, rng.normal(size=num_envs), terminated, truncated, final, [])


def begun(agent: SAC, seed: int = 0) -> Iterator[StepResult]:
    steps = world(agent.settings.num_envs, seed)
    agent.begin_episodes(next(steps).obs)
    return steps


def trained(**changes: Any) -> tuple[SAC, Iterator[StepResult]]:
    agent = agent_with(**changes)
    steps = begun(agent)
    live(agent, steps, 15)
    return agent, steps


@pytest.fixture(scope="session")
def small() -> SimpleNamespace:
    """The functions above."""
    return SimpleNamespace(
        agent_with=agent_with,
        world=world,
        begun=begun,
        live=live,
        everything=everything,
        changed=changed,
        trained=trained,
        saved=saved,
        apply=apply,
        no_hooks=NO_HOOKS,
    )
