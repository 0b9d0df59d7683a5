"""Running the other way: the forward term of a MuJoCo task's reward changes its sign, its costs do not."""

import copy
from typing import Any

import gymnasium as gym

from .alternating import Alternating
from .base import name_of, shifts

FORWARD = "reward_forward"  # in `info`: HalfCheetah, Ant, Hopper, Walker2d, Swimmer and Humanoid v5


@shifts.register("direction")
class Direction(Alternating):
    """Reward running backwards instead of forwards in every second task: r − 2·reward_forward.

    It fits what reports its forward term as `info["reward_forward"]`, weighted, as Gymnasium's v5 tasks do.
    An explosion that the guard found keeps its reward of 0.
    """

    def check(self, env: gym.Env) -> None:
        env.reset(seed=0)
        info = env.step(copy.deepcopy(env.action_space).sample())[4]  # the space's own generator is not ours to move
        if FORWARD not in info:
            raise ValueError(f"direction needs {FORWARD} in the info of a step, and {name_of(env)} gives none")

    def reward(self, reward: float, info: dict[str, Any]) -> float:
        if not self._reversed or "explosion" in info:
            return reward
        return reward - 2.0 * info[FORWARD]
