"""When gradient steps are made, and what the memory of an agent has of its decisions."""

from typing import Any

import numpy as np
import pytest
import torch

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN
from supple.agents.dqn.network import Sizes
from supple.agents.offpolicy.replay import ReplayLayout
from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from tests.agents.lives import live, vectors

COMMON: dict[str, Any] = {
    "env": "a", "steps": 1_000, "num_envs": 2, "batch_size": 4, "replay_size": 100, "learning_starts": 11,
    "device": "cpu",
}  # fmt: skip


def sac(**changes: Any) -> SAC:
    own = {"network": "mlp", "hidden": (8,), "action_repeat": 1, "compile": "off"}
    return SAC(SACSettings(**{**COMMON, **own, **changes}), {"a": Control(3, (-1.0,), (1.0,))})


def dqn(**changes: Any) -> DQN:
    return DQN(
        DQNSettings(**{**COMMON, "hidden": (8,), **changes}), {"a": Sizes(ReplayLayout((3,), np.float32, actions=2))}
    )


both = pytest.mark.parametrize("make", [sac, dqn])


@pytest.mark.slow
@both
def test_priming_updates_are_made_at_once_when_learning_begins(make: Any) -> None:
    agent, steps, counts = make(priming_updates=50, replay_ratio=0.5), vectors(3, rows=2), []
    agent.begin_episodes(next(steps).obs)
    for _ in range(10):
        live(agent, steps, 1)
        counts.append(agent.experience.taken)
    assert counts == [0, 0, 0, 0, 0, 50, 51, 52, 53, 54]  # 12 decisions, one more than learning starts at
    slots = [slots for one in agent.learners.values() for slots in one.optimizer.state.values()]
    assert {int(each["step"]) for each in slots} == {agent.numbers()["updates"]} == {54}


@both
def test_rewards_are_scaled_when_they_are_sampled_by_the_returns_so_far(make: Any) -> None:
    """Episodes that `begin` interrupts have no more returns, and what was stored stays as it is."""
    agents = [make(learning_starts=1_000, **own) for own in ({}, {"scale_rewards": 2.0})]
    for agent in agents:
        steps = vectors(3, rows=2)
        live(agent, steps, 20, begin=True)
        agent.begin_episodes(next(steps).obs)
    plain, scaled = (agent.experience.memory.sample(50, torch.Generator().manual_seed(0)) for agent in agents)
    scale = agents[1].experience.scale
    assert not scale.returns.any()
    assert not torch.equal(scaled.rewards, plain.rewards)
    torch.testing.assert_close(scaled.rewards, plain.rewards * float(scale.factors()[0]))
    np.testing.assert_array_equal(agents[0].experience.memory.reward, agents[1].experience.memory.reward)


@both
def test_truncated_transitions_bootstrap_from_the_true_last_observation_terminated_ones_do_not(make: Any) -> None:
    agent, steps = make(learning_starts=1_000), vectors(3, rows=2)
    agent.begin_episodes(next(steps).obs)
    wanted = {}
    for _ in range(50):
        states = agent.current.astype(np.float32)
        agent.act()
        agent.remember(result := next(steps))
        following = result.final_obs.astype(np.float32) * ~result.terminated[:, None]
        wanted |= {
            s.tobytes(): (end, after) for s, end, after in zip(states, result.terminated, following, strict=True)
        }
    sample = agent.experience.memory.sample(300, torch.Generator().manual_seed(0))
    assert 0 < (sample.discounts == 0).sum() < 300
    for (state, after), discount in zip(sample.frames.numpy(), sample.discounts, strict=True):
        ended, following = wanted[state.tobytes()]
        assert float(discount) == pytest.approx(0.99 * (not ended))
        np.testing.assert_array_equal(after, following)
