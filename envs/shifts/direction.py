"""Running backwards: the forward term of a MuJoCo task's reward changes its sign, its costs do not."""

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from supple.envs.fault import ExplosionInfo

from .base import Alternating, shifts

FORWARD = "reward_forward"  # in `info`: HalfCheetah, Ant, Hopper, Walker2d, Swimmer and Humanoid v5


@shifts.register("direction")
class Direction(Alternating):
    """Reward running backwards instead of forwards in every second task: r − 2·reward_forward.

    The environment must report its weighted forward term as `info["reward_forward"]`, as Gymnasium's v5 tasks do.
    After an explosion that the guard detected, the reward remains 0.
    """

    takes_rows = True

    def check(self, env: gym.Env) -> None:
        env.reset(seed=0)
        info = env.step(copy.deepcopy(env.action_space).sample())[4]  # a copy, so that its generator does not advance
        self.require(FORWARD in info, f"a number {FORWARD} in the info of a step", env)

    def reward(self, reward: float, info: dict[str, Any]) -> float:
        plain = not self._reversed or isinstance(info, ExplosionInfo)
        return reward if plain else reward - 2.0 * info[FORWARD]

    def rewards(self, rewards: np.ndarray, info: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.where(self._reversed, rewards - 2.0 * info[FORWARD], rewards)
