"""MiniGrid and BabyAI (Chevalier-Boisvert et al. 2023, arXiv 2306.13831), from the package `minigrid`."""

from typing import Any

import gymnasium as gym
import numpy as np


def import_minigrid() -> None:
    """Import `minigrid`, which registers its environments. Raises ImportError if it is not installed."""
    try:
        import minigrid  # noqa: F401
    except ImportError as error:
        raise ImportError("MiniGrid needs minigrid: pip install 'supple[minigrid]'") from error


def shows_mission(env: gym.Env) -> bool:
    """Return whether observations are those of MiniGrid itself, and not those of one of its wrappers."""
    module = type(env.unwrapped).__module__
    return module.startswith("minigrid.") and env.observation_space is env.unwrapped.observation_space


class WithoutMission(gym.ObservationWrapper):
    """A wrapper that shows the image and the direction of a MiniGrid environment, and leaves its mission, a text, out.

    The bounds of the image are those of its values, of which the largest are the kinds of things, instead of 0 and 255,
    so that networks which scale it by its bounds see numbers from 0 to 1.
    """

    def __init__(self, env: gym.Env) -> None:
        from minigrid.core.constants import OBJECT_TO_IDX

        super().__init__(env)
        shown = env.observation_space
        assert isinstance(shown, gym.spaces.Dict)
        image = gym.spaces.Box(0, max(OBJECT_TO_IDX.values()), shown["image"].shape, np.uint8)
        self.observation_space = gym.spaces.Dict({"image": image, "direction": shown["direction"]})

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        return {"image": observation["image"], "direction": observation["direction"]}
