"""The 2 × 2 frozen lake from a blog post on the primacy bias.

"It's Time to Move On: Primacy Bias and Why It Helps to Forget", ICLR 2024. `import supple.envs` registers it as
`FrozenLake2x2-v0`.
"""

from typing import Any

import gymnasium as gym
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

LAKE = ("SH", "FG")  # start, hole; frozen, goal. The way is down, then right
STEPS = 2


class FrozenLake2x2(FrozenLakeEnv):
    """Gymnasium's FrozenLake with the map SH/FG, not slippery, with episodes of at most two steps.

    The second step terminates an episode and does not truncate it. As in the post's code, nothing is bootstrapped, so
    that with γ = 1 a step against the wall has no value.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode, desc=list(LAKE), is_slippery=False)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        self.left = STEPS
        return super().reset(seed=seed, options=options)

    def step(self, a: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        observation, reward, terminated, truncated, info = super().step(int(a))
        return observation, float(reward), terminated or self.left == 0, truncated, info


gym.register("FrozenLake2x2-v0", f"{__name__}:FrozenLake2x2")
