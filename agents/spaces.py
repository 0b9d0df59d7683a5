"""What agents can serve: spaces of observations and actions that are vectors of real numbers."""

import gymnasium as gym

from ..envs import make_env


def vector_spaces(name: str) -> tuple[gym.spaces.Box, gym.spaces.Box]:
    """Return the spaces of observations and actions, which are vectors. Raises ValueError where they are not."""
    env = make_env(name)
    spaces = {"observations": env.observation_space, "actions": env.action_space}
    env.close()
    boxes = []
    for what, space in spaces.items():
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"{name}: this agent needs vectors of real numbers as {what}, not {space}")
        boxes.append(space)
    return boxes[0], boxes[1]
