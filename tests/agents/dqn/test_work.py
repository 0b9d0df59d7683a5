"""The environments of DQN: each member of a stack has the games that it has alone."""

from dataclasses import replace

import numpy as np
import pytest

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.work import DQNWork

pytest.importorskip("ale_py")


@pytest.mark.slow
def test_games_of_a_member_are_those_of_its_run_alone() -> None:
    settings = DQNSettings(env="ALE/Asterix-v5", steps=64, num_envs=2, sticky_per="step", sticky=0.5, seeds=(3, 4))
    alone = DQNWork.envs(replace(settings, seeds=()), "ALE/Asterix-v5", [{}] * 2)
    stack = DQNWork.envs(settings, "ALE/Asterix-v5", [{}] * 4)
    np.testing.assert_array_equal(stack.reset([1, 2, 5, 6])[2:], alone.reset([5, 6]))
    for actions in np.random.default_rng(0).integers(5, size=(40, 4)):
        np.testing.assert_array_equal(stack.step(actions).obs[2:], alone.step(actions[2:]).obs)
    for envs in (alone, stack):
        envs.close()
