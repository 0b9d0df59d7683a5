"""The wrapper: several shifts in order, tasks that move, spaces, generators, and everything that is refused."""

import copy
import json
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from supple.agents.tasks import make_tasks, shift_tasks
from supple.envs import Shift, Shifted, Shifts, make_env, parse_shifts
from supple.envs.shifts.physics import model_of
from supple.scripts import train
from tests.envs.worlds import Toy


def test_several_shifts_equal_nested_wrappers() -> None:
    names = ["permute_actions", "flip_actions", "permute", "offset", "negate_reward"]
    one = Toy(action_space=Discrete(5))
    together, apart = Shifted(one, " + ".join(names), 7, 3), (other := Toy(action_space=Discrete(5)))
    for name in names:
        apart = Shifted(apart, name, 7, 3)
    np.testing.assert_array_equal(together.reset(seed=0)[0], apart.reset(seed=0)[0])
    for action in range(5):
        a, b = together.step(action), apart.step(action)
        np.testing.assert_array_equal(a[0], b[0])
        assert a[1:] == b[1:]
    assert one.told == other.told != list(range(5))


def test_a_task_takes_effect_with_the_next_reset_and_equals_a_new_wrapper() -> None:
    text = "permute_actions + offset + negate_reward"
    env = Shifted(Toy(), text, seed=1)
    env.reset(seed=0)
    first = env.step(0)
    for task in (1, 2, 5, 3):
        env.task = task
        assert env.task == task
        fresh = Shifted(Toy(), text, seed=1, task=task)
        np.testing.assert_array_equal(env.reset(seed=0)[0], fresh.reset(seed=0)[0])
        assert env.step(0)[1] == fresh.step(0)[1]
        assert env.unwrapped.told == fresh.unwrapped.told
    env.task = 0
    assert env.step(0)[1] == -2  # still task 3
    env.reset(seed=0)
    np.testing.assert_array_equal(env.step(0)[0], first[0])


def test_wrappers_with_the_same_shifts_do_not_share_state() -> None:
    asked = parse_shifts("offset + delay(steps=3)")
    envs = [Shifted(Toy(), asked, task=task) for task in (0, 1)]
    envs.append(copy.deepcopy(envs[1]))
    seen = [env.reset(seed=0)[0] for env in envs]
    np.testing.assert_array_equal(seen[0], envs[0].unwrapped.shown)
    np.testing.assert_array_equal(seen[1], seen[2])
    assert not np.array_equal(seen[0], seen[1])


class Lag(Shift):
    """Observations are shown a step late. What it remembers is made in the constructor."""

    name, params = "lag", {}  # which `parse_shifts` sets

    def __init__(self) -> None:
        super().__init__(from_task=0)
        self.seen: list[np.ndarray] = []

    def begin_episode(self, random: np.random.Generator) -> None:
        self.seen.clear()

    def observation(self, observation: np.ndarray) -> np.ndarray:
        self.seen.append(observation)
        return self.seen[-2:][0]


def test_what_a_shift_makes_in_its_constructor_is_not_shared_by_copies() -> None:
    asked = Shifts([Lag()])
    copies, alone = ([Shifted(gym.make("CartPole-v1"), asked) for _ in range(2)] for _ in range(2))
    together = [np.stack([env.reset(seed=i)[0] for i, env in enumerate(copies)])]
    together += [np.stack([env.step(1)[0] for env in copies]) for _ in range(3)]
    for i, env in enumerate(alone):
        apart = [env.reset(seed=i)[0], *(env.step(1)[0] for _ in range(3))]
        np.testing.assert_array_equal([shown[i] for shown in together], apart)


@pytest.mark.filterwarnings("ignore:.*(different from the unwrapped version|infinity):UserWarning")
@pytest.mark.parametrize(
    ("env", "text"),
    [
        ("CartPole-v1", "offset + permute + noise + rescale + flip_actions + permute_actions + negate_reward + delay"),
        ("FrozenLake-v1", "permute + permute_actions"),
        ("Hopper-v5", "friction(over=9) + gravity + actuators + direction + flip_actions + noise + delay"),
    ],
)
def test_gymnasiums_checker_finds_no_problem(env: str, text: str) -> None:
    for task in (0, 1, 2):
        # raises where something is wrong
        check_env(Shifted(gym.make(env, disable_env_checker=True), text, task=task), skip_render_check=True)


def test_the_first_task_is_the_environment_itself_bit_for_bit() -> None:
    plain, env = make_env("hopper"), make_env("hopper", shifts="offset + friction + flip_actions + direction", seed=3)
    np.testing.assert_array_equal(env.reset(seed=4)[0], plain.reset(seed=4)[0])
    for action in np.random.default_rng(0).uniform(-2, 2, (20, 3)).astype(np.float32):
        ours, theirs = env.step(action), plain.step(action)
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:4] == theirs[1:4]


def test_a_mirrored_action_is_clipped_first() -> None:
    told = []
    env = make_env("halfcheetah", shifts="flip_actions", task=1)
    step = env.unwrapped.step
    env.unwrapped.step = lambda action: told.append(action) or step(action)
    env.reset(seed=0)
    env.step(np.full(6, 3.0))
    np.testing.assert_array_equal(told, [np.full(6, -1.0)])


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "offset(scale=2)",
        "offset(scale=2.5,over=100) + flip_actions",
        "delay(steps=+3) + rescale(low=1e+0,high=3)",
    ],
)
def test_parsed_shifts_print_as_texts_that_give_the_same_shifts(text: str) -> None:
    asked = parse_shifts(text)
    assert str(parse_shifts(str(asked))) == str(asked)
    assert [part.name for part in parse_shifts(text.replace(" ", "")).parts] == [part.name for part in asked.parts]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ofset", "unknown shift 'ofset': did you mean 'offset'?"),
        ("offset(scal=2)", "offset has no parameter 'scal': did you mean 'scale'?"),
        ("offset(scale=0)", "offset: scale must be positive and finite"),
        ("friction(low=2,high=1)", "friction: low and high must be finite with 0 < low <= high"),
        ("delay(steps=0)", "delay: steps must be at least 1"),
        ("permute(over=-1)", "permute: over must be 0 or more steps"),
        ("none + offset + none", "shift 'none' is given twice"),
    ],
)
def test_invalid_shifts_are_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(complaint)) as error:
        parse_shifts(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "spaces", "complaint"),
    [
        ("offset", [Discrete(4)], "offset needs observations of real numbers, but Toy has Discrete(4)"),
        ("permute", [Dict()], "permute needs vector or Discrete observations"),
        ("permute", [Box(0, 1, (8, 8, 3), bool)], "permute needs vector or Discrete observations"),
        ("permute", [Box(0, 1, (1,))], "permute needs at least two entries to permute"),
        ("flip_actions", [None, Box(0, np.inf, (1,))], "flip_actions needs two bounds or none"),
        ("flip_actions", [None, MultiDiscrete([2])], "flip_actions needs Box or Discrete actions"),
        ("permute_actions", [None, Box(0, 1)], "permute_actions needs two or more Discrete actions"),
        ("delay", [None, MultiDiscrete([2])], "delay needs Box or Discrete actions"),
        ("direction", [], "direction needs a number reward_forward in the info of a step"),
        ("friction", [], "friction needs MuJoCo physics"),
        ("mode", [], "mode needs an Atari game"),
        ("goal", [], "goal needs an environment with a settable goal (ninerooms)"),
        ("mirror_map", [], "mirror_map needs FrozenLake"),
    ],
)
def test_shifts_that_do_not_fit_an_environment_are_refused_in_one_line(
    text: str, spaces: list[gym.Space | None], complaint: str
) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(complaint)) as error:
        Shifted(Toy(*spaces), text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "joint", "complaint"),
    [
        ("Hopper-v5", "each", "stiffness needs joints with a spring, but Hopper-v5 has none"),
        ("HalfCheetah-v5", "knee", "stiffness needs a spring at joint 'knee', but HalfCheetah-v5 has bthigh, bshin"),
    ],
)
def test_stiffness_needs_a_joint_with_a_spring(name: str, joint: str, complaint: str) -> None:
    with pytest.raises(ValueError, match="^" + complaint):
        Shifted(gym.make(name), f"stiffness(joint={joint})")


def test_a_map_that_is_not_square_is_not_mirrored() -> None:
    with pytest.raises(ValueError, match="mirror_map needs a square map, but FrozenLake-v1 has 1 × 3 fields"):
        Shifted(gym.make("FrozenLake-v1", desc=["SFG"]), "mirror_map")


def test_a_gradual_change_longer_than_a_task_is_refused() -> None:
    asked = parse_shifts("none + offset(over=101)")
    asked.check(Toy(), 101)
    with pytest.raises(ValueError, match=re.escape("offset(over=101) takes 101 steps, but a task has only 100")):
        asked.check(Toy(), 100)


def test_checking_a_shift_does_not_advance_generators() -> None:
    space = make_env("hopper").action_space
    space.seed(1)
    plain = copy.deepcopy(space)
    env = gym.make("Hopper-v5")
    env.action_space.seed(1)
    Shifted(env, "direction")
    np.testing.assert_array_equal(env.action_space.sample(), plain.sample())


def offset(env: Shifted) -> np.ndarray:
    return env.step(0)[0] - env.unwrapped.shown


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), task=st.integers(1, 4), share=st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]))
def test_gradual_numbers_are_interpolated_linearly(seed: int, task: int, share: float) -> None:
    inner = Toy(gym.spaces.Box(0, 0, (3,), np.float64))
    env = Shifted(inner, "offset(over=100)", seed, task)
    before, after = (np.array(env.shifts.values(inner, seed, k)["offset"]["offset"]) for k in (task - 1, task))
    env.reset(seed=0)
    env.progress(int(100 * share))
    t = min(share, 1.0)
    expected = {0.0: before, 1.0: after}.get(t, before + t * (after - before))
    (np.testing.assert_array_equal if t in (0.0, 1.0) else np.testing.assert_allclose)(offset(env), expected)


@pytest.mark.parametrize("steps", [0, 30, 100])
def test_an_episode_has_the_new_values_with_the_share_of_steps_as_probability(steps: int) -> None:
    env = Shifted(Toy(), "negate_reward(over=100)", task=1)
    env.reset(seed=0)
    env.progress(steps)
    signs = []
    for _ in range(400):
        env.reset()
        rewards = [env.step(0)[1] for _ in range(2)]
        assert abs(rewards[1]) == 2
        assert rewards[0] * rewards[1] > 0  # one side for the whole episode
        signs.append(rewards[0] < 0)
    assert np.mean(signs) == (steps / 100 if steps != 30 else pytest.approx(0.3, abs=0.1))


def test_which_episodes_are_changed_is_drawn_from_the_seed_of_the_reset() -> None:
    def sides(seed: int) -> list[bool]:
        env = Shifted(Toy(), "negate_reward(over=100)", task=1)
        env.progress(50)
        found = []
        for k in range(20):
            env.reset(seed=seed if k == 0 else None)
            found.append(env.step(0)[1] < 0)
        return found

    assert sides(1) == sides(1)
    assert sides(1) != sides(2)


def test_a_gradual_change_starts_again_in_every_task() -> None:
    env = Shifted(Toy(gym.spaces.Box(0, 0, (3,), np.float64)), "offset(over=10)", task=1)
    env.reset(seed=0)
    env.progress(10)
    first = offset(env)
    env.task = 2
    np.testing.assert_array_equal(offset(env), first)
    env.progress(5)  # not before the next episode
    np.testing.assert_array_equal(offset(env), first)
    env.reset()
    assert not np.allclose(offset(env), first)
    env.progress(0)
    np.testing.assert_array_equal(offset(env), first)


def test_a_lake_whose_map_no_seed_determines_is_refused() -> None:
    with pytest.raises(ValueError, match="FrozenLake8x8-v1 with map_name null draws another map for each copy"):
        make_env("FrozenLake8x8-v1", kwargs={"map_name": None})


def test_values_have_the_sizes_of_the_environment_with_its_arguments() -> None:
    kwargs = {"exclude_current_positions_from_observation": False, "forward_reward_weight": 2.0}
    text = "offset + friction"
    task = shift_tasks(make_tasks(["HalfCheetah-v5"], 2, 2_048), parse_shifts(text), (0,), kwargs)[1]
    assert len(task.shift["offset"]["offset"]) == 18
    env = make_env("HalfCheetah-v5", shifts=text, task=1, kwargs=kwargs)
    before = model_of(make_env("HalfCheetah-v5", kwargs=kwargs)).geom_friction[:, 0]
    env.reset(seed=0)
    np.testing.assert_allclose(model_of(env).geom_friction[:, 0], before * task.shift["friction"]["factor"])


@pytest.mark.slow
def test_copies_of_all_tasks_have_the_arguments(tmp_path: Path) -> None:
    """With `sutton_barto_reward`, CartPole rewards nothing but a fall, by −1: this is what every episode returns."""
    words = "ppo --env cartpole --cycles 2 --steps-per-task 128 --num-envs 2 --rollout-steps 32 --minibatch-size 32"
    more = "--epochs 1 --hidden 8 --eval-episodes 0 --compile off --env-workers 1 --shift"
    arguments = ["offset(scale=3) + flip_actions", "--env-kwargs", '{"sutton_barto_reward": true}']
    train.main([*words.split(), *more.split(), *arguments, "--out", str(tmp_path / "run")])
    episodes = [json.loads(line) for line in (tmp_path / "run/episodes.jsonl").read_text().splitlines()]
    assert {episode["task"] for episode in episodes} == {0, 1}
    assert {episode["return"] for episode in episodes if not episode.get("broken_off")} == {-1.0}
