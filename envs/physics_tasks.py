"""Observations, rewards and terminations of Gymnasium's MuJoCo tasks (v5), for many copies at once.

Constants and the order of operations are those of Gymnasium's environments with their default arguments, so that the
results are equal to the last bit. Vectorised sums over an axis, sines and norms are; powers are not (see `squares`).
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .array_tasks import squares

Array = NDArray[np.float64]
Judged = tuple[Array, NDArray[np.bool_]]  # rewards, and whether episodes end


class PhysicsTask(ABC):
    """A task. A row of `now`, (n, width), has the numbers of one copy after a step: positions, velocities, then
    `other_views`.

    Attributes:
        least: The number of copies from which one batch takes less time than one copy after another.
        needs_forces: Whether the task needs contact forces, which MuJoCo only computes on request.
    """

    least = 2
    needs_forces = False

    def __init__(self, env: Any) -> None:
        """env: one of the copies, unwrapped."""
        self.nq, self.nv, self.dt = env.model.nq, env.model.nv, env.dt

    def other_views(self, data: Any) -> list[Array]:
        """Return views of the simulation's other numbers that the task reads."""
        return []

    def observe(self, now: Array) -> Array:
        """Return the observations, (n, d), as a new array."""
        return now.copy()

    @abstractmethod
    def judge(self, before: Array, now: Array, actions: np.ndarray) -> Judged:
        """Return the rewards of a step and whether it terminated the episodes, (n,) each."""

    def forward(self, before: Array, now: Array) -> Array:
        """Return the speeds along the first coordinate, (n,), where Gymnasium reports them as `reward_forward`."""
        speed: Array = (now[:, 0] - before[:, 0]) / self.dt
        return speed


class HalfCheetah(PhysicsTask):
    hidden, cost = 1, 0.1  # positions that are not observed, factor on the effort

    def observe(self, now: Array) -> Array:
        return now[:, self.hidden :].copy()

    def judge(self, before: Array, now: Array, actions: np.ndarray) -> Judged:
        return self.forward(before, now) - self.cost * _effort(actions), _never(now)


class Swimmer(HalfCheetah):
    hidden, cost = 2, 1e-4


class Walker2d(PhysicsTask):
    def observe(self, now: Array) -> Array:
        observations = now[:, 1:].copy()
        velocities = observations[:, self.nq - 1 :]
        np.clip(velocities, -10, 10, out=velocities)
        return observations

    def judge(self, before: Array, now: Array, actions: np.ndarray) -> Judged:
        healthy = self.healthy(now)
        return self.forward(before, now) + healthy - 1e-3 * _effort(actions), ~healthy

    def healthy(self, now: Array) -> NDArray[np.bool_]:
        """Return a mask of the copies that have not fallen, (n,)."""
        height, angle = now[:, 1], now[:, 2]
        return (height > 0.8) & (height < 2.0) & (angle > -1.0) & (angle < 1.0)


class Hopper(Walker2d):
    def healthy(self, now: Array) -> NDArray[np.bool_]:
        height, angle, state = now[:, 1], now[:, 2], now[:, 2:]
        sound = ((state > -100.0) & (state < 100.0)).all(axis=1)
        healthy: NDArray[np.bool_] = sound & (height > 0.7) & (height < np.inf) & (angle > -0.2) & (angle < 0.2)
        return healthy


class InvertedPendulum(PhysicsTask):
    def judge(self, before: Array, now: Array, actions: np.ndarray) -> Judged:
        fallen = ~np.isfinite(now).all(axis=1) | (np.abs(now[:, 1]) > 0.2)
        return (~fallen).astype(np.float64), fallen


class InvertedDoublePendulum(PhysicsTask):
    def other_views(self, data: Any) -> list[Array]:
        return [data.qfrc_constraint[:1], data.site_xpos[0]]

    def observe(self, now: Array) -> Array:
        angles = now[:, 1:3].copy()
        return np.concatenate([now[:, :1], np.sin(angles), np.cos(angles), np.clip(now[:, 3:7], -10, 10)], axis=1)

    def judge(self, before: Array, now: Array, actions: np.ndarray) -> Judged:
        x, y = now[:, 7], now[:, 9]
        fallen: NDArray[np.bool_] = y <= 1
        distance = 0.01 * squares(x) + squares(y - 2)
        velocity = 1e-3 * squares(now[:, 4]) + 5e-3 * squares(now[:, 5])
        return 10.0 * ~fallen - distance - velocity, fallen


class Reacher(PhysicsTask):
    def other_views(self, data: Any) -> list[Array]:
        return [data.body("fingertip").xpos, data.body("target").xpos]

    def observe(self, now: Array) -> Array:
        angles = now[:, :2].copy()
        parts = [np.cos(angles), np.sin(angles), now[:, 2:6], now[:, 8:10] - now[:, 11:13]]
        return np.concatenate(parts, axis=1)

    def judge(self, before: Array, now: Array, actions: np.ndarray) -> Judged:
        return -_lengths(now[:, 8:11] - now[:, 11:14]) - _effort(actions), _never(now)


class Pusher(PhysicsTask):
    def other_views(self, data: Any) -> list[Array]:
        return [data.body(name).xpos for name in ("tips_arm", "object", "goal")]

    def observe(self, now: Array) -> Array:
        return np.concatenate([now[:, :7], now[:, 11:18], now[:, 22:31]], axis=1)

    def judge(self, before: Array, now: Array, actions: np.ndarray) -> Judged:
        tips, thing, goal = now[:, 22:25], now[:, 25:28], now[:, 28:31]
        near, far = _lengths(thing - tips) * 0.5, _lengths(thing - goal)
        return -far - _effort(actions) * 0.1 - near, _never(now)


class Ant(PhysicsTask):
    needs_forces = True

    def other_views(self, data: Any) -> list[Array]:
        return [data.body("torso").xpos[:1], data.cfrc_ext.reshape(-1)]

    def observe(self, now: Array) -> Array:
        at = self.nq + self.nv + 1
        forces = np.clip(now[:, at + 6 :], -1.0, 1.0)  # of all bodies but the world
        return np.concatenate([now[:, 2 : at - 1], forces], axis=1)

    def judge(self, before: Array, now: Array, actions: np.ndarray) -> Judged:
        at = self.nq + self.nv
        contact = 5e-4 * np.square(np.clip(now[:, at + 1 :], -1.0, 1.0)).sum(axis=1)
        healthy = np.isfinite(now[:, :at]).all(axis=1) & (now[:, 2] >= 0.2) & (now[:, 2] <= 1.0)
        return self.forward(before, now) + healthy - (0.5 * _effort(actions) + contact), ~healthy

    def forward(self, before: Array, now: Array) -> Array:
        at = self.nq + self.nv  # the torso's position
        speed: Array = (now[:, at] - before[:, at]) / self.dt
        return speed


def _effort(actions: np.ndarray) -> np.ndarray:
    """Return the sums of squares of the actions, (n,), in their own type."""
    total: np.ndarray = np.square(actions).sum(axis=1)
    return total


def _lengths(vectors: Array) -> Array:
    """Return the lengths of vectors (n, 3), with BLAS's dot product, as np.linalg.norm does for a single vector."""
    lengths: Array = np.sqrt(np.vecdot(vectors, vectors))
    return lengths


def _never(now: Array) -> NDArray[np.bool_]:
    return np.zeros(len(now), bool)


TASKS: dict[str, type[PhysicsTask]] = {
    "HalfCheetah-v5": HalfCheetah,
    "Hopper-v5": Hopper,
    "Walker2d-v5": Walker2d,
    "Swimmer-v5": Swimmer,
    "InvertedPendulum-v5": InvertedPendulum,
    "InvertedDoublePendulum-v5": InvertedDoublePendulum,
    "Reacher-v5": Reacher,
    "Pusher-v5": Pusher,
    "Ant-v5": Ant,
}
"""Gymnasium id → its task."""
