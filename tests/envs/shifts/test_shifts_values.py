"""The values of tasks: a function of seed and task only, within their bounds, different from the previous task's."""

import json
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs import Shifted, make_env, parse_shifts
from supple.envs.shifts.drawing import draw_permutation
from tests.envs.worlds import Toy

HERE = "offset + permute + noise + rescale + flip_actions + permute_actions + negate_reward + delay + none"
PHYSICS = "friction + gravity + actuators + direction"
seeds = st.integers(0, 2**63)
tasks = st.integers(0, 6)


@pytest.fixture(scope="module")
def cheetah() -> gym.Env:
    return make_env("halfcheetah")


@pytest.mark.slow
@given(seed=seeds, task=tasks)
def test_values_are_a_pure_function_of_seed_and_task_and_of_no_other_shift(seed: int, task: int) -> None:
    values = parse_shifts(HERE).values(Toy(), seed, task)
    assert parse_shifts(HERE).values(Shifted(Toy(), "offset", seed=5, task=3), seed, task) == values
    assert json.loads(json.dumps(values)) == values
    for name, own in values.items():
        assert parse_shifts(name).values(Toy(), seed, task) == {name: own}


@settings(max_examples=20)
@given(seed=seeds, task=st.integers(1, 6))
def test_every_draw_of_physics_is_in_its_bounds_and_plain_json(cheetah: gym.Env, seed: int, task: int) -> None:
    values = parse_shifts(PHYSICS).values(cheetah, seed, task)
    assert json.loads(json.dumps(values)) == values
    assert 0.02 <= values["friction"]["factor"] <= 2
    assert 0.5 <= values["gravity"]["factor"] <= 2
    assert len(values["actuators"]["factor"]) == 6
    assert all(0.5 <= factor <= 1.5 for factor in values["actuators"]["factor"])


@given(seed=seeds)
def test_tasks_and_seeds_differ(seed: int) -> None:
    offsets = [
        parse_shifts("offset").values(Toy(), s, task)["offset"]["offset"] for s in (seed, seed + 1) for task in (1, 2)
    ]
    assert len({tuple(offset) for offset in offsets}) == 4


@pytest.mark.parametrize("from_task", [0, 1, 3])
def test_tasks_before_the_first_shifted_one_are_neutral(from_task: int) -> None:
    text = " + ".join(f"{name.strip()}(from_task={from_task})" for name in HERE.split("+"))
    neutral = parse_shifts(text).draw(Toy(), 0, -1)
    for task in range(from_task):
        np.testing.assert_equal(parse_shifts(text).draw(Toy(), 0, task), neutral)
    first = parse_shifts(text).draw(Toy(), 0, from_task)
    assert first["flip_actions"] == {"reversed": True}
    assert first["offset"]["offset"].all()


@pytest.mark.slow
@given(seed=seeds, size=st.integers(2, 6), names=st.sampled_from(["permute", "permute_actions"]))
def test_no_task_has_the_order_of_the_task_before(seed: int, size: int, names: str) -> None:
    env = Toy(gym.spaces.Box(0, 1, (size,)), gym.spaces.Discrete(size))
    orders = [parse_shifts(names).values(env, seed, task)[names]["order"] for task in range(5)]
    assert orders[0] == list(range(size))
    assert all(sorted(order) == orders[0] for order in orders)
    assert all(order != before for before, order in pairwise(orders))


def test_the_next_order_is_uniform_among_the_others() -> None:
    random, previous = np.random.default_rng(0), np.array([2, 0, 1])
    drawn = [tuple(draw_permutation(random, previous)) for _ in range(5000)]
    assert tuple(previous) not in drawn
    counts = np.array([drawn.count(order) for order in set(drawn)])
    assert len(counts) == 5
    assert np.abs(counts - 1000).max() < 150  # five standard deviations


def test_values_have_the_documented_distributions() -> None:
    env = Toy(gym.spaces.Box(-1, 1, (4000,)))
    values = parse_shifts("offset(scale=3) + noise(scale=0.5) + rescale(low=0.1,high=10)").draw(env, 0, 1)
    assert np.std(values["offset"]["offset"]) == pytest.approx(3, rel=0.05)
    assert np.mean(values["offset"]["offset"]) == pytest.approx(0, abs=0.2)
    assert np.quantile(values["noise"]["deviation"], [0, 0.5, 1]) == pytest.approx([0, 0.25, 0.5], abs=0.02)
    assert np.quantile(np.log10(values["rescale"]["factor"]), [0, 0.5, 1]) == pytest.approx([-1, 0, 1], abs=0.06)
    steps = [parse_shifts("delay(steps=2)").values(Toy(), seed, 1)["delay"]["steps"] for seed in range(60)]
    assert set(steps) == {0, 1, 2}
