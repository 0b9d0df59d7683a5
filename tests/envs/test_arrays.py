"""Classic control and the nine rooms in one batch have the results of one by one, bit for bit, or are not batched."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import (
    EnvironmentFault,
    Repeat,
    Vector,
    arrays,
    flatten,
    is_batched,
    make_env,
    shifts,
    vectorize,
)
from supple.envs import parse_shifts as parsed
from supple.envs.array_tasks import ARRAY_TASKS, ArrayTask, CartPole, squares
from supple.envs.arrays import ArrayVector
from supple.envs.compiled import is_exact
from supple.envs.shifts.negate_reward import NegateReward
from tests.envs.pairs import COPIES, assert_same, live, pair

ALL = "permute(from_task=0) + negate_reward(from_task=0)"
REAL = "rescale(from_task=0) + permute(from_task=0) + offset(from_task=0)"
TURNED = "flip_actions(from_task=0)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shift"),
    [
        *((name, ALL) for name in ARRAY_TASKS),
        *((name, f"{REAL} + {TURNED}") for name in ARRAY_TASKS if name != "NineRooms-v0"),
        *((name, f"permute_actions(from_task=0) + {TURNED}") for name in ARRAY_TASKS if name != "Pendulum-v1"),
    ],
)
def test_steps_in_c_have_the_bits_of_gymnasium_with_every_shift(name: str, shift: str) -> None:
    if not is_exact(name):
        pytest.skip("without a compiler, or with other bits of a cosine, there are none")
    singly, together = pair(name, ArrayVector, copies=6, seeds=range(6), wrap=flatten, shifts=shift)
    assert isinstance(together, ArrayVector)
    assert together.compiled is not None
    steps, take = [], together.compiled.step
    together.compiled.step = lambda actions: steps.append(taken := take(actions)) or taken  # type: ignore[method-assign]
    live(singly, together, 300)
    assert sum(step is not None for step in steps) > 100


def test_steps_whose_shifts_c_does_not_know_are_taken_by_numpy() -> None:
    for shift in ("noise", "offset(over=90)"):
        singly, together = pair("cartpole", ArrayVector, shifts=shift, task=1)
        assert isinstance(together, ArrayVector)
        assert together.compiled is None
        live(singly, together, 20)


def test_tasks_whose_bits_differ_in_c_are_stepped_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    is_exact.cache_clear()
    monkeypatch.setattr(CartPole, "numbers", lambda self: [*ArrayTask.numbers(self)[:-1], 0.3])
    singly, together = pair("cartpole", ArrayVector)
    assert isinstance(together, ArrayVector)
    assert together.compiled is None
    live(singly, together, 20)
    is_exact.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", ARRAY_TASKS)
def test_thousands_of_steps_are_those_of_gymnasium_to_the_last_bit(name: str) -> None:
    live(*pair(name, ArrayVector, copies=33), 800)
    pair_of_vectors = pair(name, ArrayVector, max_episode_steps=90)
    assert live(*pair_of_vectors, 200) >= 2 * COPIES
    (obs, episodes), theirs = (envs.restart() for envs in pair_of_vectors)
    np.testing.assert_array_equal(obs, theirs[0])
    assert episodes == theirs[1] != []
    assert_same(*(envs.reset(range(COPIES)) for envs in pair_of_vectors))
    live(*pair_of_vectors, 40)


@pytest.mark.parametrize("name", ARRAY_TASKS)
def test_time_limits_are_those_of_gymnasium(name: str) -> None:
    limit: Any = gym.spec(name).max_episode_steps
    singly, together = pair(name, ArrayVector, copies=5)
    ends = {len(result.episodes) for result in step_idly(singly, together, limit)}
    assert 5 in ends or name == "CartPole-v1"


def step_idly(singly: Vector, together: Vector, steps: int) -> list[Any]:
    """Take steps with the first action, or 0, in both, and return the results."""
    space = singly.single_action_space
    actions = np.zeros((singly.num_envs, *(space.shape or ())), space.dtype)
    results = []
    for _ in range(steps):
        results.append(together.step(actions))
        assert_same(singly.step(actions), results[-1])
    return results


def test_actions_of_other_types_have_the_results_of_gymnasium() -> None:
    singly, together = pair("Pendulum-v1", ArrayVector, clip_actions=False)
    random = np.random.default_rng(0)
    for dtype in (np.float32, np.float64) * 20:
        actions = random.uniform(-4, 4, (COPIES, 1)).astype(dtype)
        assert_same(singly.step(actions), together.step(actions))


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_actions_that_are_not_numbers_explode_as_in_the_guard() -> None:
    singly, together = pair("Pendulum-v1", ArrayVector)
    step_idly(singly, together, 3)
    actions = np.zeros((COPIES, 1), np.float32)
    actions[[1, 4]] = np.nan
    results = singly.step(actions), together.step(actions)
    assert [(e.index, e.explosion, e.length) for e in results[0].episodes] == [(1, "nan", 4), (4, "nan", 4)]
    assert_same(*results)
    live(singly, together, 10)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "value"), [("cartpole", np.nan), ("cartpole", np.inf), ("cartpole", 1e39), ("acrobot", np.nan)]
)
@pytest.mark.parametrize("shift", [None, "offset(from_task=0) + negate_reward(from_task=0)"])
def test_states_that_are_not_finite_explode_as_in_the_guard(name: str, value: float, shift: str | None) -> None:
    singly, together = pair(name, ArrayVector, shifts=shift)
    step_idly(singly, together, 2)
    world: Any = singly.envs[2].unwrapped
    world.state[1] = value
    together._state[1, 2] = value
    actions = np.ones(COPIES, np.int64)
    results = singly.step(actions), together.step(actions)
    assert [(episode.index, episode.exploded) for episode in results[0].episodes] == [(2, True)]
    assert_same(*results)
    live(singly, together, 20)


@pytest.mark.parametrize(("name", "actions"), [("cartpole", [0, 1, 2, 0, 0]), ("acrobot", [0, 3, 0, 0, 0])])
def test_actions_that_do_not_exist_are_a_fault(name: str, actions: list[int]) -> None:
    for envs in pair(name, ArrayVector, copies=5):
        with pytest.raises(EnvironmentFault, match=r"-v1: step\(\) raised "):
            envs.step(np.array(actions))


def test_powers_are_those_of_single_numbers() -> None:
    for dtype in (np.float32, np.float64):
        numbers = np.random.default_rng(0).normal(0, 9, (2, 4000)).astype(dtype)
        expected = np.array([number**2 for number in numbers.ravel()]).reshape(numbers.shape)
        found = squares(numbers)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


class Doubled(NegateReward):
    def reward(self, reward: float, info: dict[str, Any]) -> float:
        return 2 * reward


@pytest.mark.parametrize(
    "make",
    [
        partial(make_env, "cartpole", render_mode="rgb_array"),
        partial(make_env, "cartpole", shifts="offset + doubled"),
        lambda: Repeat(make_env("Pendulum-v1"), 2),
        lambda: gym.make("CartPole-v1"),
        lambda: gym.wrappers.TimeLimit(make_env("cartpole"), 9),
        partial(make_env, "CartPole-v0"),
        partial(make_env, "NoisyHopper-v5"),
    ],
    ids=["pictures", "plug-in", "repeat", "checker", "order", "version", "arguments"],
)
def test_other_environments_are_stepped_one_by_one(
    make: Callable[[], gym.Env], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shifts, "_entries", {**shifts.entries, "doubled": Doubled})
    noisy = {"kwargs": {"reset_noise_scale": 0.1}, "entry_point": gym.spec("Hopper-v5").entry_point}
    monkeypatch.setitem(gym.registry, "NoisyHopper-v5", gym.envs.registration.EnvSpec("NoisyHopper-v5", **noisy))
    assert type(vectorize([make] * 5)) is Vector


@pytest.mark.parametrize(
    "others",
    [{"shifts": "offset(scale=3)"}, {"max_episode_steps": 9}, {"shifts": "offset", "kwargs": {}}],
)
def test_copies_may_only_differ_in_the_values_of_their_shifts(others: dict[str, Any]) -> None:
    made = {"shifts": "offset", "seed": 1, "task": 1}
    copies = [partial(make_env, "cartpole", **made)] * 5 + [partial(make_env, "cartpole", **{**made, **others})]
    assert type(vectorize(copies)) is (ArrayVector if "kwargs" in others else Vector)


def test_a_task_whose_batched_steps_differ_is_stepped_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(CartPole):
        def step(self, state: np.ndarray, actions: np.ndarray) -> Any:
            now, *others = super().step(state, actions)
            now[2, -1] = np.nextafter(now[2, -1], np.inf)
            return now, *others

    monkeypatch.setitem(ARRAY_TASKS, "CartPole-v1", Longer)
    assert not is_batched("cartpole", 8)


def test_fewer_copies_are_batched_where_they_are_stepped_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_batched("cartpole", 1) == is_exact("CartPole-v1")
    monkeypatch.setattr(arrays, "is_exact", lambda name: False)  # a machine without a compiler, or with other bits
    assert not is_batched("cartpole", 1)
    assert is_batched("cartpole", 8)


@pytest.mark.parametrize(
    ("name", "copies", "shifts", "kwargs", "batched"),
    [
        ("cartpole", 8, "offset(over=9) + negate_reward", {}, True),
        ("cartpole", 8, "delay", {}, False),
        ("cartpole", 8, "none", {"sutton_barto_reward": True}, False),
        ("ninerooms", 8, "goal + permute", {}, True),
        ("hopper", 2, "gravity + none + offset", {}, True),
        ("hopper", 2, "gravity + delay", {}, False),
        ("humanoid", 2, "none", {}, False),
    ],
)
def test_what_is_batched_depends_on_task_copies_shifts_and_arguments(
    name: str, copies: int, shifts: str, kwargs: dict[str, Any], batched: bool
) -> None:
    assert is_batched(name, copies, parsed(shifts), kwargs) == batched
    makes = [partial(make_env, name, shifts=shifts, kwargs=kwargs)] * copies
    assert (type(vectorize(makes)) is not Vector) == batched
    assert type(vectorize(makes, batched=False)) is Vector
