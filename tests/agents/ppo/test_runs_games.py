"""PPO sees Atari games as DQN does."""

from contextlib import closing

import numpy as np
import pytest

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.work import PPOWork
from supple.engine.seeding import derive
from supple.envs import Picture, make_pixels

pytest.importorskip("ale_py", reason="ale-py is an extra")
GAME = "ALE/Breakout-v5"


def test_ppo_reads_the_frames_of_dqn_and_acts_on_them() -> None:
    settings = PPOSettings(
        env=GAME,
        steps=8,
        num_envs=2,
        rollout_steps=4,
        minibatch_size=8,
        encoder="nature(channels=[2,2,2])",
        compile="off",
    )
    settings.resolve()
    with closing(PPOWork(settings)) as work, closing(make_pixels(GAME, 2)) as games:
        space = work.spaces[GAME]
        assert (space.observation, space.dtype, space.picture) == (4 * 84 * 84, "uint8", Picture(4, 84, 84))
        work.enter(work.tasks[0])
        work.begin_segment(0, 0)
        first = games.reset([derive(0, "episodes", 0, copy) % 2**31 for copy in range(2)])
        assert work.agent.current.dtype == np.uint8
        np.testing.assert_array_equal(work.agent.current, first.reshape(2, -1))
        assert work._envs is not None
        work.agent.remember(work._envs.step(work.agent.act()))
        assert work.agent.current.shape == (2, 4 * 84 * 84)
        with work.agent.greedy(GAME) as policy:
            assert policy(first).shape == (2,)
