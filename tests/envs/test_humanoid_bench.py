"""The h1 tasks as environments: names, spaces, resets, determinism, rendering."""

import copy
import os
import pickle
import re
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.mujoco import MujocoEnv
from gymnasium.utils.env_checker import check_env

from supple.envs import ExplosionInfo, make_env
from supple.envs.h1 import H1_TASKS
from supple.envs.humanoid_assets import assets_folder

try:
    assets_folder()
except FileNotFoundError as reason:
    pytest.skip(str(reason), allow_module_level=True)

SIZES = {"sit_hard": 64, "balance_simple": 64, "balance_hard": 77, "reach": 57}  # elsewhere 26 + 25
STILL = np.zeros(19, np.float32)


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.fixture
def walk():
    return make_env("h1-walk")


@pytest.mark.parametrize("task", H1_TASKS)
def test_a_task_has_its_spaces_and_starts_within_the_noise_of_its_keyframe(task: str):
    env = make_env(f"h1-{task}")
    inner = env.unwrapped
    assert isinstance(inner, MujocoEnv)
    assert env.spec.id == f"h1-{task}-v0"
    assert env.spec.max_episode_steps == 1000
    assert env.observation_space.shape == (SIZES.get(task, 51),)
    assert env.observation_space.dtype == np.float64
    assert env.action_space == gym.spaces.Box(-1, 1, (19,), np.float32)
    assert inner.dt == pytest.approx(0.02)
    observation, _ = env.reset(seed=0)
    qpos = observation[: inner.model.nq]
    np.testing.assert_array_equal(qpos, inner.data.qpos)
    noise = qpos - inner.model.key_qpos[0]
    free = slice(7, None) if task == "sit_hard" else slice(None)  # sit_hard puts the robot elsewhere
    assert np.all(np.abs(noise[free]) <= 0.01)
    assert np.all(noise[free] != 0)
    np.testing.assert_array_equal(inner.data.qvel, inner.model.key_qvel[0])
    assert env.observation_space.contains(observation)


@pytest.mark.parametrize("task", ["walk", "sit_hard", "reach"])
def test_the_same_seed_and_actions_give_the_same_trajectory(task: str):
    actions = np.random.default_rng(0).uniform(-1, 1, (25, 19)).astype(np.float32)

    def play(env: gym.Env, seed: int) -> np.ndarray:
        rows = [env.reset(seed=seed)[0]]
        rows += [np.append(*env.step(action)[:2])[:-1] for action in actions]
        return np.array(rows)

    env = make_env(f"h1-{task}")
    first = play(env, 5)
    np.random.seed(1)  # noqa: NPY002  (the original draws from NumPy's global generator; here it has no say)
    np.testing.assert_array_equal(play(env, 5), first)
    np.testing.assert_array_equal(play(make_env(f"h1-{task}"), 5), first)
    assert not np.array_equal(play(env, 6), first)


def test_actions_are_mapped_linearly_to_the_actuators_ranges(walk: gym.Env):
    inner = walk.unwrapped
    low, high = inner.model.actuator_ctrlrange.T
    for action, expected in ((-1.0, low), (0.0, (low + high) / 2), (1.0, high), (7.0, high)):
        walk.reset(seed=0)
        walk.step(np.full(19, action, np.float32))
        np.testing.assert_allclose(inner.data.ctrl, expected, atol=1e-6)


def test_an_action_of_another_shape_is_refused_in_one_line():
    env = gym.make("h1-walk-v0")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=re.escape("must have shape (19,), got (1,)")):
        env.step(np.zeros(1, np.float32))


@pytest.mark.parametrize(("task", "way"), [("maze", "deepcopy"), ("sit_hard", "deepcopy"), ("reach", "pickle")])
def test_a_copy_goes_on_from_the_same_state_on_its_own(task: str, way: str):
    env = make_env(f"h1-{task}")
    env.reset(seed=0)
    env.step(STILL)
    other = copy.deepcopy(env) if way == "deepcopy" else pickle.loads(pickle.dumps(env))
    actions = np.random.default_rng(0).uniform(-1, 1, (8, 19)).astype(np.float32)
    for ours, theirs in [*((env.step(a), other.step(a)) for a in actions), (env.reset(), other.reset())]:
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:] == theirs[1:]
    other.unwrapped.data.qvel[:] = 1e12  # its guard looks at its own physics
    assert other.step(STILL)[4].cause == "simulation"
    assert not isinstance(env.step(STILL)[4], ExplosionInfo)


def test_sit_hard_begins_anywhere_before_the_chair():
    env = make_env("h1-sit_hard")
    env.reset(seed=0)
    starts = np.array([env.reset()[0][:7] for _ in range(40)])
    for column, low, high in ((0, 0.2, 0.4), (1, -0.15, 0.15)):
        assert low <= starts[:, column].min() < low + 0.2 * (high - low)
        assert high >= starts[:, column].max() > high - 0.2 * (high - low)
    yaw = 2 * np.arctan2(starts[:, 6], starts[:, 3])
    assert -1.8 <= yaw.min() < -1.0
    assert 1.0 < yaw.max() <= 1.8
    np.testing.assert_allclose(np.linalg.norm(starts[:, 3:], axis=1), 1)
    np.testing.assert_array_equal(starts[:, 4:6], 0)


def test_reach_shows_its_goal_and_draws_a_new_one_at_every_reset():
    env = make_env("h1-reach")
    env.reset(seed=0)
    goals = []
    for _ in range(40):
        observation, _ = env.reset()
        np.testing.assert_array_equal(observation[-3:], env.unwrapped.goal)
        np.testing.assert_array_equal(observation[-6:-3], env.unwrapped.data.site("left_hand").xpos)
        goals.append(env.unwrapped.goal)
    assert np.all(np.min(goals, axis=0) >= [-2, -2, 0.2])
    assert np.all(np.max(goals, axis=0) <= [2, 2, 2])
    assert np.all(np.ptp(goals, axis=0) > [3, 3, 1.3])
    env.unwrapped.goal = np.ones(3)
    np.testing.assert_array_equal(env.step(STILL)[0][-3:], 1)


@pytest.mark.parametrize("task", ["stand", "reach", "balance_hard"])
def test_gymnasiums_checker_finds_no_problem(task: str, recwarn: pytest.WarningsRecorder):
    check_env(gym.make(f"h1-{task}-v0", disable_env_checker=True).unwrapped, skip_render_check=True)
    unbounded = "value is -infinity", "value is infinity"  # positions have no bounds
    assert [w for w in recwarn if not any(text in str(w.message) for text in unbounded)] == []


def test_without_rendering_there_is_no_gl_context():
    done = python(
        "import glfw, gymnasium, mujoco, supple.envs\n"
        "def context(*_): raise SystemExit('a GL context was asked for')\n"
        "glfw.init = glfw.create_window = mujoco.GLContext = mujoco.MjrContext = context\n"
        "env = gymnasium.make('h1-reach-v0')\n"
        "env.reset(seed=0); env.step(env.action_space.sample()); env.close()\n"
    )
    assert done.returncode == 0, done.stderr


def test_a_picture_is_drawn_by_egl():
    done = python(
        "import gymnasium, supple.envs, mujoco.egl\n"
        "try: mujoco.egl.GLContext(8, 8)\n"
        "except Exception: raise SystemExit(77)\n"
        "env = gymnasium.make('h1-reach-v0', render_mode='rgb_array', width=64, height=48)\n"
        "env.reset(seed=0)\n"
        "env.unwrapped.goal = env.unwrapped.data.site('head').xpos + [0, 0, 0.2]\n"
        "near = env.render()\n"
        "env.unwrapped.goal = [9.0, 9.0, -9.0]\n"
        "far = env.render()\n"
        "assert near.shape == (48, 64, 3) and far.std() > 10\n"
        "changed = (near != far).any(-1)\n"
        "assert 3 < changed.sum() < 200, changed.sum()\n"
        "env.close()\n",
        MUJOCO_GL="egl",
    )
    if done.returncode == 77:
        pytest.skip("no EGL on this machine")
    assert done.returncode == 0, done.stderr


def test_missing_mujoco_is_one_line_that_says_what_to_install():
    done = python(
        "import sys; sys.modules['mujoco'] = None\nimport gymnasium, supple.envs\ngymnasium.make('h1-walk-v0')"
    )
    assert "ImportError" in done.stderr.splitlines()[-1]
    assert "pip install 'supple[humanoid]'" in done.stderr.splitlines()[-1]
