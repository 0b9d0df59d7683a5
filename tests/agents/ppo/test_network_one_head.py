"""One adapter, head and set of statistics for all environments."""

from typing import Any

import numpy as np
import pytest
import torch

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.agents.ppo.network import PolicySpace
from supple.agents.ppo.policies import Categorical, Gaussian
from tests.agents.lives import live, vectors

EQUAL = {"a": PolicySpace(4, Categorical(3)), "b": PolicySpace(4, Categorical(3))}


def agent_with(spaces: dict[str, PolicySpace], **changes: Any) -> PPO:
    values: dict[str, Any] = {
        "env": "unused", "steps": 1, "num_envs": 2, "rollout_steps": 16, "epochs": 1, "minibatch_size": 16,
        "hidden": (8,), "adapter": 6, "compile": "off", "heads": "one", **changes,
    }  # fmt: skip
    return PPO(PPOSettings(**values), spaces)


@pytest.mark.slow
@pytest.mark.parametrize("share_value", [True, False])
def test_with_one_head_environments_share_what_is_learned(share_value: bool) -> None:
    agent = agent_with(EQUAL, share_value=share_value)
    before = {name: p.detach().clone() for name, p in agent.network.named_parameters()}
    steps = vectors(4, rows=2)
    live(agent, steps, 16, begin=True)
    assert not any(torch.equal(p, before[name]) for name, p in agent.network.named_parameters())
    count = agent.normalizers.observations["all"].count
    x = np.random.default_rng(1).normal(size=(5, 4))
    with agent.greedy("a") as a, agent.greedy("b") as b:
        np.testing.assert_array_equal(a(x), b(x))
    agent.begin_task("b")
    agent.begin_episodes(next(steps).obs)
    live(agent, steps, 16)
    assert len(agent.normalizers.observations) == len(agent.normalizers.rewards) == 1
    assert agent.normalizers.observations["all"].count > 1.9 * count  # it went on
    steps = {float(slot["step"]) for slot in agent.optimizer.state.values()}
    assert steps == {4.0}  # two steps in each environment, for every parameter


@pytest.mark.parametrize("other", [PolicySpace(5, Categorical(3)), PolicySpace(4, Gaussian(3))])
def test_environments_with_other_spaces_are_refused_by_name(other: PolicySpace) -> None:
    shown = f"needs equal spaces, but a has 4 observations and 3 Categorical outputs and b has {other}"
    with pytest.raises(ValueError, match=shown):
        agent_with({"a": EQUAL["a"], "b": other})
    agent_with({"a": EQUAL["a"], "b": other}, heads="environment")
