"""Stiffer or softer joints: a factor on the spring of each joint for each task."""

from typing import Any

import gymnasium as gym
import numpy as np

from .base import shifts
from .physics import PhysicsFactor, model_of

EVERY = ("each", "all")  # values of `joint` that are no names


@shifts.register("stiffness")
class Stiffness(PhysicsFactor):
    """Multiply the stiffness of MuJoCo joints by factors, log-uniform in [low, high] for each task.

    A joint without a spring (stiffness 0) does not change. Of Gymnasium's tasks, HalfCheetah and Humanoid have springs.

    Args:
        low: The smallest factor, above 0.
        high: The largest factor.
        joint: "each" for a factor of its own for every joint, "all" for one factor for all joints, or the name of the
            only joint that changes.
        over: Steps over which the change is gradual (see `Shift`).
        from_task: The first task that is shifted.
    """

    def __init__(
        self, low: float = 0.5, high: float = 2.0, joint: str = "each", *, over: int = 0, from_task: int = 1
    ) -> None:
        super().__init__(low, high, over=over, from_task=from_task)
        self.joint = joint

    def check(self, env: gym.Env) -> None:
        super().check(env)
        model = model_of(env)
        sprung = [model.joint(i).name for i in np.flatnonzero(model.jnt_stiffness)]
        named = self.joint not in EVERY
        needed = f"a spring at joint {self.joint!r}" if named else "joints with a spring"
        self.require(self.joint in sprung if named else bool(sprung), needed, env, ", ".join(sprung) or "none")

    def part(self, model: Any) -> np.ndarray:
        if self.joint in EVERY:
            return model.jnt_stiffness
        number = model.joint(self.joint).id
        return model.jnt_stiffness[number : number + 1]

    def shape(self, model: Any) -> tuple[int, ...] | None:
        return (model.njnt,) if self.joint == "each" else None
