"""What each shift does to observations, actions and rewards."""

import csv
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from gymnasium.spaces import Box, Discrete, MultiBinary
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.envs import ExplosionInfo, Shifted, make_env, parse_shifts, shifts
from supple.envs.shifts.drawing import draw_permutation
from supple.scripts.list import parameters
from tests.envs.worlds import Toy


def values(env: Shifted, name: str) -> dict[str, Any]:
    return env.shifts.values(env.env, env.seed, env.task)[name]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_offset_adds_a_constant_and_rescale_multiplies_one(dtype: type) -> None:
    for name, key, operation in (("offset", "offset", np.add), ("rescale", "factor", np.multiply)):
        inner = Toy(Box(-1, 1, (2, 3), dtype))
        env = Shifted(inner, name, seed=4, task=2)
        assert env.observation_space == Box(-np.inf, np.inf, (2, 3), dtype)
        constant = np.array(values(env, name)[key], dtype)
        seen = [env.reset(seed=0)[0]]
        np.testing.assert_array_equal(seen[0], operation(inner.shown, constant))
        seen.append(env.step(0)[0])
        np.testing.assert_array_equal(seen[1], operation(inner.shown, constant))
        assert [o.dtype for o in seen] == [dtype] * 2


def test_noise_has_the_task_s_deviations_and_is_drawn_from_the_seed_of_the_reset() -> None:
    inner = Toy(Box(0, 0, (2,), np.float32))
    env = Shifted(inner, "noise(scale=0.5)", task=1)

    def noise(seed: int | None, steps: int) -> np.ndarray:
        return np.stack([env.reset(seed=seed)[0], *(env.step(0)[0] for _ in range(steps))])

    drawn = noise(3, 4000)
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.std(0), values(env, "noise")["deviation"], rtol=0.06)
    np.testing.assert_allclose(drawn.mean(0), 0, atol=0.03)
    np.testing.assert_array_equal(noise(3, 5), drawn[:6])
    assert not np.array_equal(noise(None, 5), drawn[:6])  # goes on from there
    assert not np.array_equal(noise(4, 5), drawn[:6])


@pytest.mark.parametrize("space", [Box(-1, 1, (5,)), Box(-1, 1, (2, 3)), MultiBinary(4)])
def test_permute_shows_the_same_numbers_in_another_order(space: gym.Space) -> None:
    inner = Toy(space)
    env = Shifted(inner, "permute", task=1)
    seen = env.reset(seed=1)[0]
    np.testing.assert_array_equal(seen.ravel(), inner.shown.ravel()[values(env, "permute")["order"]])
    assert (seen.shape, seen.dtype) == (inner.shown.shape, inner.shown.dtype)
    assert env.observation_space == space


def test_permute_maps_discrete_observations_one_to_one() -> None:
    inner = Toy(Discrete(6, start=2))
    env = Shifted(inner, "permute", task=1)
    seen = {}
    env.reset(seed=1)
    for _ in range(100):
        observation = env.step(0)[0]
        seen[int(inner.shown)] = int(observation)
    assert [seen[number] - 2 for number in range(2, 8)] == values(env, "permute")["order"]


def test_permute_widens_bounds_to_hold_in_every_task() -> None:
    inner = Toy(Box(np.array([-1.0, 0.0, 2.0]), np.array([1.0, 5.0, 3.0]), dtype=np.float64))
    assert Shifted(inner, "permute").observation_space == Box(-1.0, 5.0, (3,), np.float64)


@pytest.mark.parametrize(
    ("space", "action", "mirrored"),
    [
        (Discrete(4), 1, 2),
        (Discrete(3, start=5), 5, 7),
        (Box(-1, 1, (2,)), [0.25, -1], [-0.25, 1]),
        (Box(np.float32([0, -1]), np.float32([2, 0])), [0.5, -0.5], [1.5, -0.5]),
        (Box(-np.inf, np.inf, (2,)), [3, -1], [-3, 1]),
    ],
)
def test_flip_actions_mirrors_every_second_task(space: gym.Space, action: Any, mirrored: Any) -> None:
    inner = Toy(action_space=space)
    env = Shifted(inner, "flip_actions")
    for task, expected in ((0, action), (1, mirrored), (2, action)):
        env.task = task
        env.reset(seed=0)
        env.step(np.array(action, space.dtype))
        np.testing.assert_array_equal(inner.told, [expected])
        assert space.contains(inner.told[0])


def test_permute_actions_permutes_discrete_actions() -> None:
    inner = Toy(action_space=Discrete(4, start=1))
    env = Shifted(inner, "permute_actions", seed=3, task=2)
    env.reset(seed=0)
    for action in np.arange(1, 5):
        env.step(action)
    assert [int(action) - 1 for action in inner.told] == values(env, "permute_actions")["order"]


def test_negate_reward_changes_the_sign_in_every_second_task() -> None:
    env = Shifted(Toy(), "negate_reward")
    for task, sign in ((0, 1), (1, -1), (2, 1)):
        env.task = task
        env.reset(seed=0)
        assert [env.step(0)[1] for _ in range(3)] == [sign, 2 * sign, 3 * sign]


def test_delay_passes_older_actions_and_starts_again_in_every_episode() -> None:
    inner = Toy(action_space=Box(0.5, 2.0, (1,)))
    seed = next(seed for seed in range(99) if Shifted(inner, "delay(steps=3)", seed, 1).after["delay"]["steps"] == 2)
    env = Shifted(inner, "delay(steps=3)", seed, 1)
    action = np.ones(1, np.float32)
    for _ in range(2):
        env.reset(seed=0)
        for step in range(5):
            action[0] = 1 + step / 8  # in the same memory
            env.step(action)
        np.testing.assert_array_equal(np.ravel(inner.told), [0.5, 0.5, 1, 1.125, 1.25])
    env.task = 0
    env.reset()
    env.step(action)
    assert inner.told == [action]


def test_delay_begins_with_the_first_discrete_action() -> None:
    inner = Toy(action_space=Discrete(3, start=4))
    env = next(env for s in range(99) if (env := Shifted(inner, "delay(steps=1)", s, 1)).after["delay"]["steps"])
    env.reset(seed=0)
    env.step(6)
    env.step(5)
    assert inner.told == [4, 6]


@pytest.mark.parametrize("name", ["HalfCheetah", "Ant", "Hopper", "Walker2d", "Swimmer", "Humanoid"])
def test_direction_reverses_the_forward_reward_and_leaves_the_costs(name: str) -> None:
    forwards, backwards = make_env(f"{name}-v5"), make_env(f"{name}-v5", shifts="direction", task=1)
    for env in (forwards, backwards):
        env.reset(seed=0)
        env.action_space.seed(0)
    for _ in range(3):
        action = forwards.action_space.sample()
        _, reward, *_, info = forwards.step(action)
        assert info["reward_forward"] != 0
        assert backwards.step(action)[1] == reward - 2 * info["reward_forward"]
    others = sum(value for key, value in info.items() if key.startswith("reward_") and key != "reward_forward")
    assert backwards.step(action)[1] != reward
    assert reward - info["reward_forward"] == pytest.approx(others, abs=1e-6)  # Hopper's cost is a float32


def test_an_explosion_keeps_its_reward_of_0() -> None:
    for text in ("direction", "negate_reward"):
        env = make_env("halfcheetah", shifts=text, task=1)
        env.reset(seed=0)
        env.unwrapped.data.qvel[:] = 1e12
        _, reward, terminated, _, info = env.step(np.zeros(6))
        assert (reward, terminated) == (0, True)
        assert isinstance(info, ExplosionInfo)


HERE = "offset + permute + noise + rescale + flip_actions + permute_actions + negate_reward + delay + none"
PHYSICS = "friction + gravity + actuators + stiffness + direction"
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
    assert len(values["stiffness"]["factor"]) == 9
    assert all(0.5 <= factor <= 2 for factor in values["stiffness"]["factor"])


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


DOWN, RIGHT = 1, 2


@pytest.fixture(scope="module")
def rooms() -> gym.Env:
    return make_env("ninerooms")


@given(seed=st.integers(0, 2**63), task=st.integers(0, 6))
def test_goals_are_drawn_outside_the_top_rooms_and_that_of_the_start(rooms: gym.Env, seed: int, task: int) -> None:
    goal = parse_shifts("goal(from_task=0)").values(rooms, seed, task)["goal"]["goal"]
    row, column = divmod(goal, 15)
    assert 5 <= row < 15
    assert 0 <= column < 15
    assert row >= 10 or not 5 <= column < 10


def test_the_goal_of_a_task_is_the_same_whichever_tasks_came_before() -> None:
    env = Shifted(gym.make("NineRooms-v0"), "goal", seed=1)
    drawn = {task: env.shifts.values(env, 1, task)["goal"]["goal"] for task in range(4)}
    assert drawn[0] is None  # the environment's own
    assert len(set(drawn.values())) == 4
    for task in (0, 3, 1, 0, 2):
        env.task = task
        env.reset()
        assert env.unwrapped.goal == (224 if task == 0 else drawn[task])


@pytest.mark.parametrize("slippery", [False, True])
@pytest.mark.parametrize("rows", [("SH", "FG"), *(generate_random_map(4, seed=seed) for seed in range(3))])
def test_a_mirrored_lake_is_the_lake_of_the_mirrored_map(rows: tuple[str, ...], slippery: bool) -> None:
    lake = gym.make("FrozenLake-v1", desc=rows, is_slippery=slippery)
    mirrored = gym.make(
        "FrozenLake-v1", desc=["".join(column) for column in zip(*rows, strict=True)], is_slippery=slippery
    )
    (shift,) = parse_shifts("mirror_map").parts
    shift.set(lake, {"reversed": True})
    inner = lake.unwrapped.P
    for state, actions in mirrored.unwrapped.P.items():
        for action, expected in actions.items():
            moves = inner[shift.observation(state)][shift.action(action)]
            assert sorted((p, shift.observation(after), r, end) for p, after, r, end in moves) == sorted(expected)


def test_mirror_map_alternates_or_stays_mirrored() -> None:
    for text, ways in (("mirror_map", "drdr"), ("mirror_map(stay=true)", "drrr")):
        env = make_env("frozenlake2x2", shifts=text)
        for task, way in enumerate(ways):
            env.task = task
            env.reset(seed=0)
            first, second = (DOWN, RIGHT) if way == "d" else (RIGHT, DOWN)
            assert env.step(first)[:4] == (2 if way == "d" else 1, 0.0, False, False)
            assert env.step(second)[:4] == (3, 1.0, True, False)


def test_an_episode_on_the_small_lake_has_at_most_two_steps() -> None:
    env = make_env("frozenlake2x2")
    for _ in range(2):
        env.reset(seed=0)
        assert [env.step(np.int64(0))[2:4] for _ in range(2)] == [(False, False), (True, False)]
    check_env(gym.make("FrozenLake2x2-v0", disable_env_checker=True).unwrapped, skip_render_check=True)


REFERENCE = Path(__file__).parents[3] / "docs/reference"
PAGE = (REFERENCE / "worlds.md").read_text()


def test_every_example_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shifts, "_entries", dict(shifts.entries))
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        exec(block, names)
    assert re.fullmatch(
        r"\{'offset': \{'offset': \[.*\]\}, 'flip_actions': \{'reversed': False\}\}\n", capsys.readouterr().out
    )


def test_the_page_lists_every_shift_with_its_parameters() -> None:
    common = ", over=0, from_task=1"
    known = {f"{name}{parameters(entry)}".replace(common, "") for name, entry in shifts.entries.items()}
    known = {re.sub(r"\((over=0, from_task=1)?\)", "", text) for text in known}
    with open(REFERENCE / "shifts.csv", newline="") as rows:
        assert {row["shift"].strip("`") for row in csv.DictReader(rows)} == known


def test_the_page_says_how_each_shift_can_be_gradual() -> None:
    gradual = PAGE[PAGE.index("### Gradual changes") : PAGE.index("### Order")].split(
        "Shifts\nwithout intermediate values"
    )
    for text, way in zip(gradual, ("numbers", "episodes"), strict=True):
        found = {name for name in re.findall(r"`(\w+)`", text) if name in shifts.entries}
        assert found == {name for name, entry in shifts.entries.items() if entry.gradual == way} - {"none"}


def parts(env: gym.Env) -> dict[str, np.ndarray]:
    model = env.unwrapped.model
    return {
        "friction": model.geom_friction.copy(),
        "gravity": model.opt.gravity.copy(),
        "actuators": model.actuator_gear.copy(),
        "stiffness": model.jnt_stiffness.copy(),
    }


@pytest.mark.parametrize("name", ["friction", "gravity", "actuators", "stiffness"])
def test_a_factor_changes_only_its_part_of_the_model_and_is_undone_by_1(name: str) -> None:
    inner = make_env("halfcheetah")
    own = parts(inner)
    env = Shifted(inner, f"{name}(low=0.2,high=0.4)", seed=1)
    for task in (1, 2, 0):
        env.task = task
        env.reset(seed=0)
        factor = np.array(env.shifts.values(inner, 1, task)[name]["factor"])
        expected = {key: value.copy() for key, value in own.items()}
        if name == "friction":
            expected["friction"][:, 0] *= factor
        else:
            expected[name] *= factor[:, None] if name == "actuators" else factor
        now = parts(env)
        for key in own:
            np.testing.assert_allclose(now[key], expected[key], rtol=1e-15)
    np.testing.assert_equal(parts(env), own)


def test_a_factor_multiplies_the_friction_that_the_environment_was_made_with() -> None:
    env = make_env("ant", friction=0.5, shifts="friction(low=3,high=3)", task=1)
    env.reset(seed=0)
    np.testing.assert_allclose(env.unwrapped.model.geom_friction[:, 0], 1.5)


@pytest.mark.parametrize(("joint", "changed"), [("all", [3, 4, 5, 6, 7, 8]), ("bfoot", [5])])
def test_one_factor_changes_the_stiffness_of_all_joints_or_of_one(joint: str, changed: list[int]) -> None:
    env = make_env("halfcheetah", shifts=f"stiffness(low=3,high=3,joint={joint},over=100)", task=1)
    env.reset(seed=0)
    own = env.unwrapped.model.jnt_stiffness.copy()
    env.get_wrapper_attr("progress")(50)
    now = env.unwrapped.model.jnt_stiffness
    assert np.flatnonzero(now != own).tolist() == changed
    np.testing.assert_allclose(now[changed], 2 * own[changed])  # halfway from 1 to 3
