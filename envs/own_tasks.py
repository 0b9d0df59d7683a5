"""Environments that say themselves when their task changes."""

import gymnasium as gym

from supple.registry import naming

from .shifts.base import name_of


class OwnTasks(gym.Wrapper):
    """A wrapper that asks an environment for its task, and tells it the steps behind it after a checkpoint.

    The environment, or a wrapper in it, has an attribute `task`, a number or a text, and a method `progress(steps)`:
    continue, from the next reset on, as after this number of steps of each copy.

    Args:
        env: The environment.
        copies: The number of copies of the environment in training.

    Raises:
        ValueError: The environment lacks one of them.
    """

    def __init__(self, env: gym.Env, copies: int) -> None:
        super().__init__(env)
        self.copies = copies
        for name in ("task", "progress"):
            if not env.has_wrapper_attr(name):
                raise ValueError(
                    f"--own-tasks: {name_of(env)} has no {name!r}: it needs an attribute task, and a method "
                    "progress(steps) by which it continues after a checkpoint"
                )

    @property
    def told(self) -> str:
        """The task of the environment, as a text."""
        return str(self.env.get_wrapper_attr("task"))

    def progress(self, steps: int) -> None:
        """Continue as after this number of steps, counted over all copies in training."""
        with naming(f"{name_of(self.env)}: progress()", self.env.unwrapped):
            self.env.get_wrapper_attr("progress")(steps // self.copies)
