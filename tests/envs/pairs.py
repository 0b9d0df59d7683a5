"""The same copies stepped one by one and in one batch, whose results are compared."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from supple.envs import StepResult, Vector, make_env, vectorize

COPIES = 7


def pair(
    name: str,
    kind: type[Vector],
    *,
    copies: int = COPIES,
    seeds: Sequence[int] | None = None,
    wrap: Callable[[gym.Env], gym.Env] = lambda env: env,
    threads: int = 1,
    **world: Any,
) -> tuple[Vector, Vector]:
    """Return copies that are stepped one by one and in one batch, after a reset. seeds: those of their shifts."""

    def make(seed: int) -> gym.Env:
        return wrap(make_env(name, seed=seed, **world))

    makes = [partial(make, seed) for seed in (seeds or [0] * copies)]
    both = Vector(makes), vectorize(makes, threads=threads)
    assert type(both[1]) is kind
    assert_same(*(envs.reset(range(5, 5 + len(makes))) for envs in both))
    return both


def assert_same(one: Any, other: Any) -> None:
    """Assert that arrays or results are equal to the last bit, with types."""
    if isinstance(one, StepResult):
        assert one.episodes == other.episodes
        assert (one.final_obs is one.obs) == (other.final_obs is other.obs)
        for ours, theirs in zip(one[:-1], other[:-1], strict=True):
            assert_same(ours, theirs)
    else:
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()


def live(singly: Vector, together: Vector, steps: int, passed: int = 0) -> int:
    """Take the same steps in both, with actions beyond the bounds, too, and return the number of ended episodes."""
    random, space, ended = np.random.default_rng(1), singly.single_action_space, 0
    for step in range(steps):
        actions = draw_actions(random, space, singly.num_envs, step)
        results = singly.step(actions), together.step(actions)
        assert_same(*results)
        ended += len(results[0].episodes)
        if passed:
            for envs in (singly, together):
                envs.progress(passed * step)
    return ended


def draw_actions(random: np.random.Generator, space: Any, copies: int, step: int) -> np.ndarray:
    """Return random actions. Those of a Box have other types in turn, and a third of them is out of bounds."""
    if isinstance(space, gym.spaces.Discrete):
        return random.integers(space.n, size=copies)
    actions = random.uniform(-1.5, 1.5, (copies, *space.shape)) * space.high
    return actions.astype(np.float32) if step % 2 else actions
