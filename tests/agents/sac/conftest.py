"""A small SAC agent in an artificial world, and copies of its state: the fixture `small`."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.draws import sources_of
from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.engine.hooks.driver import HookDriver
from supple.envs import StepResult
from supple.interventions import make, parse_call

D, A = 5, 2
CONTROL = Control(D, (-1.0, -0.5), (1.0, 2.0))
NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)


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


def live(agent: SAC, steps: Iterator[StepResult], count: int, hooks: HookDriver = NO_HOOKS) -> None:
    for _ in range(count):
        agent.act()
        agent.remember(next(steps))
        agent.update(hooks, last=False)


def everything(agent: SAC) -> dict[str, Tensor]:
    """Return copies of the whole state of training but the memory."""
    found = {}
    for name, learner in agent._all_learners().items():
        for i, module in enumerate((learner.module, *learner.followers)):
            found |= {f"{name}/{i}/{key}": p.detach().clone() for key, p in module.named_parameters()}
        assert learner.optimizer is not None
        for i, slots in learner.optimizer.state_dict()["state"].items():
            found |= {f"{name}/slot {i}/{key}": value.clone() for key, value in slots.items()}
        for i, random in enumerate((learner.generator, *learner.generators)):
            found[f"{name}/generator {i}"] = random.get_state()
    drawn = {**agent._generators(), "replay": agent.experience.draws}
    for name, draws in drawn.items():
        found |= {f"generator/{name} {i}": random.get_state() for i, random in enumerate(sources_of(draws))}
    found |= {
        "mean": torch.tensor(agent.inputs.statistics["all"].mean),
        "variance": torch.tensor(agent.inputs.statistics["all"].variance),
    }
    return found | {"sums": agent.experience.sums.clone(), "global": torch.get_rng_state()}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> list[str]:
    assert before.keys() == after.keys()
    return [name for name, value in before.items() if not torch.equal(value, after[name])]


def trained(**changes: Any) -> tuple[SAC, Iterator[StepResult]]:
    agent = agent_with(**changes)
    steps = begun(agent)
    live(agent, steps, 15)
    return agent, steps


def saved(agent: SAC) -> dict[str, Any]:
    """Return the agent's state as a checkpoint would store it, with the rows of the memory as they are now."""
    state = agent.state_dict()
    experience = state.pop("experience")
    memory, frozen = experience.pop("memory"), []
    for rows in memory["envs"]:
        kept = {name: tensor.clone() for name, tensor in rows.read(rows.first, rows.end).items()}
        shift = rows.first
        read = lambda a, b, kept=kept, shift=shift: {n: t[a - shift : b - shift] for n, t in kept.items()}  # noqa: E731
        frozen.append(replace(rows, read=read))
    return {**copy.deepcopy(state), "experience": {**copy.deepcopy(experience), "memory": {**memory, "envs": frozen}}}


def apply(agent: SAC, text: str, contract: str = "uniform", *names: str) -> dict[str, list[str]]:
    """Apply an intervention to the learners with these names (by default, to all that it supports)."""
    call = parse_call(text)
    params = {**call.params, **({"contract": contract} if contract != "uniform" else {})}
    written = {}
    for learner in agent.learners.values():
        intervention = make(call.name, **params)
        if intervention.concerns(learner) and learner.name in (names or agent.learners):
            intervention.attach(learner)
            written[learner.name] = intervention.apply(learner)
    return written


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
