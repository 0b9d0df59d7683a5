"""Heavy priming: many gradient steps at once when learning begins, and ordinary training after them."""

from typing import Any

import numpy as np
import pytest
import torch

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN
from supple.agents.dqn.sizes import RowSizes
from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.engine.hooks.driver import HookDriver
from supple.envs import StepResult

NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)
COMMON: dict[str, Any] = {
    "env": "a", "steps": 1_000, "num_envs": 2, "batch_size": 4, "replay_size": 100, "learning_starts": 11,
    "device": "cpu",
}  # fmt: skip


def sac(**changes: Any) -> SAC:
    own = {"network": "mlp", "hidden": (8,), "action_repeat": 1, "compile": "off"}
    return SAC(SACSettings(**{**COMMON, **own, **changes}), {"a": Control(3, (-1.0,), (1.0,))})


def dqn(**changes: Any) -> DQN:
    return DQN(DQNSettings(**{**COMMON, "hidden": (8,), **changes}), {"a": RowSizes(3, 2)})


def taken(agent: SAC | DQN, decisions: int) -> list[int]:
    """Return the number of gradient steps after every decision of both copies."""
    rng, no = np.random.default_rng(0), np.zeros(2, bool)
    agent.begin_episodes(rng.normal(size=(2, 3)).astype(np.float32))
    counts = []
    for _ in range(decisions):
        agent.act()
        obs = rng.normal(size=(2, 3)).astype(np.float32)
        agent.remember(StepResult(obs, rng.normal(size=2), no, no, obs, []))
        agent.update(NO_HOOKS, last=False)
        counts.append(agent.experience.taken)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("make", [sac, dqn])
def test_priming_updates_are_made_at_once_when_learning_begins(make: Any) -> None:
    agent = make(priming_updates=50, replay_ratio=0.5)
    assert taken(agent, 10) == [0, 0, 0, 0, 0, 50, 51, 52, 53, 54]  # 12 decisions, one more than learning starts at
    counts = {int(slots["step"]) for one in agent.learners.values() for slots in one.optimizer.state.values()}
    assert counts == {54}
    assert agent.numbers()["updates"] == 54


def test_without_priming_updates_follow_the_replay_ratio() -> None:
    assert taken(sac(replay_ratio=0.5), 10) == [0, 0, 0, 0, 0, 0, 1, 2, 3, 4]


def test_targets_of_sac_follow_during_priming_and_those_of_dqn_stay() -> None:
    for agent, follows in ((sac(priming_updates=20), True), (dqn(priming_updates=20), False)):
        before = [p.clone() for p in agent.target.parameters()]
        taken(agent, 6)
        same = [torch.equal(a, b) for a, b in zip(before, agent.target.parameters(), strict=True)]
        assert not any(same) if follows else all(same)
