"""Frozen rows keep what they show, and change nothing of the others."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from supple.envs import AtariVector, ConcatenatedVector, Envs, EnvWorkers, Vector, WorkerVector, make_env, vectorize
from tests.envs.test_workers import copies

CARTPOLE, HOPPER = partial(make_env, "cartpole", shifts="offset + noise", task=1), partial(make_env, "hopper")

VECTORS: dict[str, Callable[[], Envs]] = {
    "one by one": lambda: Vector([CARTPOLE] * 5),
    "arrays": lambda: vectorize([CARTPOLE] * 5),
    "physics": lambda: vectorize([HOPPER] * 5, threads=2),
    "joined": lambda: ConcatenatedVector([Vector([CARTPOLE] * 2), vectorize([CARTPOLE] * 3)]),
    "games": lambda: AtariVector("asterix", 5, max_frames=60),
    "workers": lambda: WorkerVector(EnvWorkers(2, int), "Hopper-v5", partial(copies, name="hopper"), 5),
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("games", "workers")]
FROZEN, OTHERS = [1, 3, 4], [0, 2]


@pytest.fixture(scope="module", params=[*list(VECTORS)[:-2], *SLOW])
def two(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    if request.param == "games":
        pytest.importorskip("ale_py")
    made: Any = VECTORS[request.param](), VECTORS[request.param]()
    yield made
    for envs in made:
        envs.close()
        if isinstance(envs, WorkerVector):
            envs._workers.close()


@pytest.fixture
def vectors(two: tuple[Any, Any]) -> tuple[Any, Any]:
    for envs in two:
        envs.reset(range(5))
    return two


def act(envs: Any, step: int) -> np.ndarray:
    """Return different actions for every step and row, which end episodes."""
    space = envs.single_action_space
    space.seed(step)
    return np.stack([space.sample() for _ in range(envs.num_envs)])


def test_frozen_rows_keep_their_observations_and_end_no_episodes(vectors: tuple[Any, Any]) -> None:
    free, held = vectors
    last = free.step(act(free, 0)).obs
    held.step(act(held, 0))
    held.freeze(FROZEN[:2])
    held.freeze(FROZEN[1:])
    ended = 0
    for step in range(60):
        actions = act(free, step)
        theirs, ours = free.step(actions), held.step(actions)
        for one, other in zip(theirs[:-1], ours[:-1], strict=True):
            np.testing.assert_array_equal(one[OTHERS], other[OTHERS])
        for obs in (ours.obs, ours.final_obs):
            np.testing.assert_array_equal(obs[FROZEN], last[FROZEN])
        assert not any(values[FROZEN].any() for values in (ours.reward, ours.terminated, ours.truncated))
        assert ours.episodes == [episode for episode in theirs.episodes if episode.index in OTHERS]
        ended += len(ours.episodes)
    assert ended > 0
    held.freeze(range(5))
    np.testing.assert_array_equal(held.step(act(held, 0)).obs, ours.obs)


def test_a_reset_thaws_all_rows(vectors: tuple[Any, Any]) -> None:
    fresh, held = vectors
    held.freeze(range(5))
    for step in range(9):
        held.step(act(held, step))
    np.testing.assert_array_equal(*(envs.reset(range(8, 13)) for envs in vectors))
    for step in range(9):
        theirs, ours = (envs.step(act(fresh, step)) for envs in vectors)
        np.testing.assert_array_equal(theirs.obs, ours.obs)
        assert theirs.episodes == ours.episodes


def test_results_are_never_overwritten(vectors: tuple[Any, Any]) -> None:
    envs, _ = vectors
    kept = [array for step in range(30) for array in envs.step(act(envs, step))[:5]]
    copies = [array.copy() for array in kept]
    for step in range(30):
        envs.step(act(envs, step))
    assert all(map(np.array_equal, kept, copies))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("shift", ["offset + noise", "offset"])  # steps with the second one are taken in C
def test_frozen_rows_are_not_restarted(together: bool, shift: str) -> None:
    envs = vectorize([partial(make_env, "cartpole", shifts=shift, task=1)] * 4, batched=together)
    envs.reset(range(4))
    last = envs.step(np.zeros(4, np.int64)).obs
    envs.freeze([2])
    obs, episodes = envs.restart()
    np.testing.assert_array_equal(obs[2], last[2])
    assert not (obs[[0, 1, 3]] == last[[0, 1, 3]]).any()
    assert [episode.index for episode in episodes] == [0, 1, 3]
    result = envs.step(np.ones(4, np.int64))
    np.testing.assert_array_equal(result.obs[2], last[2])
    assert result.reward.tolist() == [1.0, 1.0, 0.0, 1.0]
