"""Copies of an environment side by side: stepped in one batch if possible, else one by one."""

from collections.abc import Callable, Sequence

import gymnasium as gym

from .arrays import ArrayVector
from .batched import BatchedVector
from .make import Kwargs, make_env, resolve_env
from .physics import PhysicsVector
from .shifts.several import Shifts
from .vector import Vector

BATCHED: tuple[type[BatchedVector], ...] = (ArrayVector, PhysicsVector)


def vectorize(
    makes: Sequence[Callable[[], gym.Env]], *, batched: bool = True, threads: int = 1, fewer: bool = False
) -> Vector:
    """Return copies of an environment, stepped in one batch if possible, else one by one, with the same results.

    Args:
        makes: Functions that return one copy each. The copies may differ in the seeds of their shifts.
        batched: Whether to step them in one batch if this is possible and saves time.
        threads: Number of threads that step a batch of MuJoCo's simulations. It does not change the results.
        fewer: Use as many of these threads as are fastest in a short trial.

    Raises:
        ValueError, EnvironmentFault: As `Vector` does.
    """
    one_by_one = Vector(makes)
    kind = next((kind for kind in BATCHED if kind.can_batch(one_by_one.envs)), None) if batched else None
    if kind is None or not (together := kind(one_by_one.envs)).is_proven():
        return one_by_one
    if isinstance(together, PhysicsVector):
        together.use_fastest(threads) if fewer else together.use(threads)
    return together


def is_batched(name: str, copies: int = 2, shifts: Shifts | None = None, kwargs: Kwargs | None = None) -> bool:
    """Return whether `vectorize` steps copies of an environment in one batch, with these shifts and arguments.

    If the task is a candidate, two copies are made to find out. Raises ValueError if the name is unknown."""
    env_id = resolve_env(name)
    kind = next((kind for kind in BATCHED if env_id in kind.tasks), None)
    least = None if kind is None else kind.least(env_id)
    if kind is None or least is None or copies < least or kwargs or not kind.takes(shifts):
        return False
    envs = kind([make_env(name), make_env(name)])
    proven = envs.is_proven()
    envs.close()
    return proven
