"""Gymnasium's classic control and the nine rooms as arithmetic on arrays, for many copies at once.

The order of operations is that of the environments, whose constants are read from one of them, so that the results are
equal to the last bit. NumPy's sines of arrays are those of single numbers; powers are not (see `squares`).
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .nine_rooms import NEIGHBOURS, cell_rewards

Array = NDArray[Any]
Outcome = tuple[Array, Array, Array, NDArray[np.bool_]]
"""States (k, n), observations (n, *shape), rewards (n,) and what terminated (n,)."""


class ArrayTask(ABC):
    """A task whose states are the columns of an array (k, n), in the order of the environment's own state.

    Attributes:
        least: The number of copies from which NumPy takes less time for them together than for one after another.
        constants: The names of the environment's numbers, as steps in C read them (see classic.c).
    """

    least: ClassVar[int]
    constants: ClassVar[tuple[str, ...]] = ()

    def __init__(self, env: Any) -> None:
        """env: one of the copies, unwrapped."""
        self.env = env

    def read(self, env: Any) -> Any:
        """Return the state of a copy, unwrapped, as k numbers."""
        return env.state

    def numbers(self) -> list[float]:
        """Return the constants."""
        return [getattr(self.env, name) for name in self.constants]

    def draw_states(self, random: np.random.Generator, copies: int) -> Array:
        """Return any states of so many copies, (k, copies)."""
        return random.normal(0.0, 1.0, (len(self.read(self.env)), copies))

    @abstractmethod
    def step(self, state: Array, actions: Array) -> Outcome:
        """Return new arrays with the outcomes of these actions, (n, …)."""


class CartPole(ArrayTask):
    least = 4
    constants = (
        "force_mag", "polemass_length", "total_mass", "gravity", "length", "masspole", "tau", "x_threshold",
        "theta_threshold_radians",
    )  # fmt: skip

    def step(self, state: Array, actions: Array) -> Outcome:
        env = self.env
        pushed_right = actions == 1
        if not (pushed_right | (actions == 0)).all():
            raise ValueError(f"actions must be 0 or 1, got {actions.tolist()}")
        x, x_dot, theta, theta_dot = state
        force = np.where(pushed_right, env.force_mag, -env.force_mag)
        cosine, sine = np.cos(theta), np.sin(theta)
        push = (force + env.polemass_length * np.square(theta_dot) * sine) / env.total_mass
        turn = (env.gravity * sine - cosine * push) / (
            env.length * (4.0 / 3.0 - env.masspole * np.square(cosine) / env.total_mass)
        )
        now = np.empty_like(state)
        now[0], now[2] = x + env.tau * x_dot, theta + env.tau * theta_dot
        now[1] = x_dot + env.tau * (push - env.polemass_length * turn * cosine / env.total_mass)
        now[3] = theta_dot + env.tau * turn
        # NaN does not end an episode
        fallen = (np.abs(now[0]) > env.x_threshold) | (np.abs(now[2]) > env.theta_threshold_radians)
        return now, now.T.astype(np.float32, order="C"), np.ones(len(actions)), fallen


class Acrobot(ArrayTask):
    least = 5
    constants = (
        "LINK_MASS_1", "LINK_MASS_2", "LINK_LENGTH_1", "LINK_COM_POS_1", "LINK_COM_POS_2", "LINK_MOI", "dt",
        "MAX_VEL_1", "MAX_VEL_2",
    )  # fmt: skip

    def numbers(self) -> list[float]:
        return [*super().numbers(), *self.env.AVAIL_TORQUE]

    def step(self, state: Array, actions: Array) -> Outcome:
        env = self.env
        torque, step, half = np.array(env.AVAIL_TORQUE)[actions], env.dt, env.dt / 2.0
        first = self.change(state, torque)
        second = self.change(state + half * first, torque)
        third = self.change(state + half * second, torque)
        fourth = self.change(state + step * third, torque)
        now: Array = state + step / 6.0 * (first + 2 * second + 2 * third + fourth)
        now[:2] = wrap(now[:2])
        now[2] = np.minimum(np.maximum(now[2], -env.MAX_VEL_1), env.MAX_VEL_1)
        now[3] = np.minimum(np.maximum(now[3], -env.MAX_VEL_2), env.MAX_VEL_2)
        cosines, sines = np.cos(now[:2]), np.sin(now[:2])
        height = -cosines[0] - np.cos(now[1] + now[0])
        reached: NDArray[np.bool_] = height > 1.0
        obs = np.empty((now.shape[1], 6), np.float32)
        obs[:, :4:2], obs[:, 1:4:2], obs[:, 4:] = cosines.T, sines.T, now[2:].T
        return now, obs, np.where(reached, 0.0, -1.0), reached

    def change(self, state: Array, torque: Array) -> Array:
        """Return the derivative of states (4, n), by the equations of Sutton and Barto's book."""
        env, g = self.env, 9.8
        m1, m2, l1, inertia1, inertia2 = env.LINK_MASS_1, env.LINK_MASS_2, env.LINK_LENGTH_1, env.LINK_MOI, env.LINK_MOI
        c1, c2 = env.LINK_COM_POS_1, env.LINK_COM_POS_2
        theta1, theta2, speed1, speed2 = state
        cosine2, sine2 = np.cos(theta2), np.sin(theta2)
        d1 = m1 * c1**2 + m2 * (l1**2 + c2**2 + 2 * l1 * c2 * cosine2) + inertia1 + inertia2
        d2 = m2 * (c2**2 + l1 * c2 * cosine2) + inertia2
        square1, square2, square_d2 = squares(np.stack([speed1, speed2, d2]))
        phi2 = m2 * c2 * g * np.cos(theta1 + theta2 - np.pi / 2.0)
        phi1 = (
            -m2 * l1 * c2 * square2 * sine2
            - 2 * m2 * l1 * c2 * speed2 * speed1 * sine2
            + (m1 * c1 + m2 * l1) * g * np.cos(theta1 - np.pi / 2)
            + phi2
        )
        turn2 = (torque + d2 / d1 * phi1 - m2 * l1 * c2 * square1 * sine2 - phi2) / (
            m2 * c2**2 + inertia2 - square_d2 / d1
        )
        return np.stack([speed1, speed2, -(d2 * turn2 + phi1) / d1, turn2])


class Pendulum(ArrayTask):
    least = 3
    constants = ("max_torque", "max_speed", "dt", "g", "m", "l")

    def step(self, state: Array, actions: Array) -> Outcome:
        env = self.env
        angle, speed = state
        torque = np.clip(actions, -env.max_torque, env.max_torque)[:, 0]
        upright = (angle + np.pi) % (2 * np.pi) - np.pi
        square, square_speed = squares(np.stack([upright, speed]))
        costs = square + 0.1 * square_speed + 0.001 * squares(torque)
        g, m, length = env.g, env.m, env.l
        faster = speed + (3 * g / (2 * length) * np.sin(angle) + 3.0 / (m * length**2) * torque) * env.dt
        now = np.empty_like(state)
        now[1] = np.clip(faster, -env.max_speed, env.max_speed)
        now[0] = angle + now[1] * env.dt
        obs = np.empty((len(actions), 3), np.float32)
        obs[:, 0], obs[:, 1], obs[:, 2] = np.cos(now[0]), np.sin(now[0]), now[1]
        return now, obs, -costs, np.zeros(len(actions), bool)


class MountainCar(ArrayTask):
    least = 5
    constants = (
        "min_position", "max_position", "max_speed", "goal_position", "goal_velocity", "force", "gravity",
    )  # fmt: skip

    def step(self, state: Array, actions: Array) -> Outcome:
        env = self.env
        position, velocity = state
        faster = velocity + ((actions - 1) * env.force + np.cos(3 * position) * -env.gravity)
        now = np.empty_like(state)
        now[1] = np.clip(faster, -env.max_speed, env.max_speed)
        now[0] = np.clip(position + now[1], env.min_position, env.max_position)
        now[1, (now[0] == env.min_position) & (now[1] < 0)] = 0.0
        reached = (now[0] >= env.goal_position) & (now[1] >= env.goal_velocity)
        return now, now.T.astype(np.float32, order="C"), np.full(len(actions), -1.0), reached


class NineRoomsTask(ArrayTask):
    """The state is the cell and the goal, which a shift may have moved."""

    least = 5

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.neighbours = np.array(NEIGHBOURS)
        self.rewards = np.full((len(NEIGHBOURS),) * 2, np.nan)  # of each goal and cell

    def read(self, env: Any) -> Any:
        if np.isnan(self.rewards[env.goal, 0]):
            self.rewards[env.goal] = cell_rewards(env.goal)
        return env.cell, env.goal

    def draw_states(self, random: np.random.Generator, copies: int) -> Array:
        cell, goal = random.integers(len(NEIGHBOURS), size=copies), np.full(copies, self.read(self.env)[1])
        return np.stack([cell, goal])

    def step(self, state: Array, actions: Array) -> Outcome:
        cell, goal = state
        now = np.stack([self.neighbours[cell, actions], goal])
        return now, now[0].copy(), self.rewards[goal, cell], cell == goal


def squares(numbers: Array) -> Array:
    """Return x² in the shape and type of `numbers`, with the C library's `pow`, as Python's operator does for single
    numbers, and not as x · x."""
    if numbers.dtype == np.float64:
        return np.array([number**2 for number in numbers.ravel().tolist()]).reshape(numbers.shape)
    return np.array([number**2 for number in numbers.ravel()], numbers.dtype).reshape(numbers.shape)


def wrap(angles: Array) -> Array:
    """Return angles in [−π, π], by whole turns, one after the other."""
    turn = np.pi - -np.pi
    while (above := angles > np.pi).any():
        angles = np.where(above, angles - turn, angles)
    while (below := angles < -np.pi).any():
        angles = np.where(below, angles + turn, angles)
    return angles


ARRAY_TASKS: dict[str, type[ArrayTask]] = {
    "CartPole-v1": CartPole,
    "Acrobot-v1": Acrobot,
    "Pendulum-v1": Pendulum,
    "MountainCar-v0": MountainCar,
    "NineRooms-v0": NineRoomsTask,
}
"""Gymnasium id → its task."""
