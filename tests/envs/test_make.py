"""Environments by name: ids, terminations, friction, clipping, and a quiet MuJoCo."""

import importlib
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import ExplosionInfo, environment_names, has_friction, make_env, resolve_env


def test_every_short_name_stands_for_a_registered_task():
    for name in environment_names():
        assert resolve_env(name) in gym.registry
        assert resolve_env(name.upper()) == resolve_env(name)


def test_a_registered_id_stands_for_itself():
    assert resolve_env("CartPole-v1") == "CartPole-v1"


ALE = pytest.mark.skipif(not find_spec("ale_py"), reason="ale-py is an extra")
EXTRA = {name: pytest.mark.skipif(not find_spec(name), reason="an extra") for name in ("minatar", "minigrid")}
REFUSED = [
    # near names
    ("hoper", "unknown environment 'hoper': did you mean 'hopper'"),
    ("HalfCheetah-v6", "unknown environment 'HalfCheetah-v6': did you mean 'HalfCheetah-v5'"),
    pytest.param("BeamRyder", "did you mean 'beam_rider'", marks=ALE),
    pytest.param("ALE/Asterx-v5", "did you mean 'ALE/Asterix-v5'", marks=ALE),
    pytest.param("ALE/Asterix-v4", "did you mean 'ALE/Asterix-v5'", marks=ALE),
    pytest.param("qqqq", "use one of halfcheetah, hopper", marks=ALE),  # else it may be a game
    pytest.param("minatar:brekout", "MinAtar has no environment 'minatar:brekout': did you mean 'minatar:Breakout'?",
                 marks=EXTRA["minatar"]),
    pytest.param("minigrid:DorKey-5x5", "did you mean 'minigrid:DoorKey-5x5' or", marks=EXTRA["minigrid"]),
    pytest.param("minigrid:qqqq", "(see `supple list games`)", marks=EXTRA["minigrid"]),
    # successors of old ids
    ("LunarLander-v2", "did you mean 'LunarLander-v3', its successor"),
    ("halfcheetah-v1", "did you mean 'HalfCheetah-v5', its successor"),
    pytest.param("PongNoFrameskip-v4", "did you mean 'ALE/Pong-v5', its successor", marks=ALE),
    pytest.param("SpaceInvaders-ramDeterministic-v4", "'ALE/SpaceInvaders-v5', its successor", marks=ALE),
    ("HalfCheetah-v3", "HalfCheetah-v3 can no longer be made: its successor is 'HalfCheetah-v5'"),
    # what makes those of known packages work
    ("minigrid", "environment 'minigrid': MiniGrid's tasks are named like minigrid:DoorKey-5x5"),
    ("dm_control/walker-walk-v0", "'mujoco<4'"),
    ("metaworld:reach-v3", "metaworld 3.0.0 fails"),
    ("pick-place-v2-goal-observable", "metaworld 3.0.0 fails"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*out of date:UserWarning")
@pytest.mark.parametrize(("name", "line"), REFUSED)
def test_a_name_that_is_none_is_answered_with_what_would_be_right(name: str, line: str):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - what it says is compared
        make_env(name)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_an_old_id_that_still_works_is_made_with_a_warning():
    with pytest.warns(UserWarning, match="Hopper-v4 is out of date: its successor is Hopper-v5"):
        make_env("Hopper-v4").close()


@pytest.mark.parametrize(
    ("name", "healthy", "unhealthy"),
    [
        ("hopper", (0.7, np.inf), 0.4),
        ("walker2d", (0.8, 2.0), 0.5),
        ("ant", (0.2, 1.0), 1.5),
        ("humanoid", (1.0, 2.0), 0.7),
    ],
)
def test_an_unhealthy_height_ends_the_episode(name: str, healthy: tuple[float, float], unhealthy: float):
    env = make_env(name)
    inner = env.unwrapped
    assert inner._terminate_when_unhealthy
    assert inner._healthy_z_range == healthy
    env.reset(seed=0)
    still = np.zeros(env.action_space.shape)
    assert env.step(still)[2] is False
    height = 1 if name in ("hopper", "walker2d") else 2  # planar bodies: x, z, pitch; free bodies: x, y, z
    inner.data.qpos[height] = unhealthy
    _, _, terminated, truncated, info = env.step(still)
    assert terminated
    assert not truncated
    assert not isinstance(info, ExplosionInfo)


def test_halfcheetah_runs_its_full_length_even_upside_down():
    env = make_env("halfcheetah")
    env.reset(seed=0)
    env.unwrapped.data.qpos[2] = np.pi
    ends = [env.step(np.zeros(6))[2:4] for _ in range(1000)]
    assert not any(terminated for terminated, _ in ends)
    assert [truncated for _, truncated in ends] == [False] * 999 + [True]


def test_friction_scales_the_sliding_column_of_every_geom_and_nothing_else():
    normal, slippery = make_env("ant").unwrapped.model, make_env("ant", friction=0.25).unwrapped.model
    np.testing.assert_allclose(slippery.geom_friction[:, 0], 0.25 * normal.geom_friction[:, 0])
    np.testing.assert_array_equal(slippery.geom_friction[:, 1:], normal.geom_friction[:, 1:])
    np.testing.assert_array_equal(slippery.body_mass, normal.body_mass)
    assert slippery.npair == 0  # no contact pair with a friction of its own


def test_friction_changes_the_dynamics_of_its_own_environment_only():
    envs = [make_env("halfcheetah"), make_env("halfcheetah", friction=0.2), make_env("halfcheetah")]
    actions = np.random.default_rng(0).uniform(-1, 1, (50, 6))
    for env in envs:
        env.reset(seed=3)
    for action in actions:
        normal, slippery, again = (env.step(action)[0] for env in envs)
    np.testing.assert_array_equal(normal, again)
    assert np.abs(normal - slippery).max() > 0.1


@pytest.mark.parametrize("friction", [0.0, float("nan"), float("inf")])
def test_friction_must_be_positive_and_finite(friction: float):
    with pytest.raises(ValueError, match="friction must be a positive finite factor"):
        make_env("hopper", friction=friction)


def test_friction_needs_mujoco_physics():
    assert has_friction("hopper")
    assert not has_friction("CartPole-v1")
    with pytest.raises(ValueError, match="CartPole-v1 has none"):
        make_env("CartPole-v1", friction=0.5)


def test_clipping_bounds_the_control_cost_and_can_be_turned_off():
    action = np.full(6, 10.0)
    costs = []
    for clip in (True, False):
        env = make_env("halfcheetah", clip_actions=clip)
        env.reset(seed=0)
        costs.append(env.step(action)[4]["reward_ctrl"])
    assert costs == pytest.approx([-0.1 * 6, -0.1 * 6 * 100])


@pytest.mark.parametrize(
    ("module", "loaded", "name", "line"),
    [
        ("mujoco", [], "halfcheetah", r"MuJoCo is not installed: pip install 'supple[mujoco]'"),
        (
            "Box2D",
            ["lunar_lander", "bipedal_walker"],
            "lunarlander",
            "Box2D is not installed: pip install 'supple[box2d]'",
        ),
    ],
)
def test_a_missing_simulator_is_one_line_that_says_what_to_install(
    module: str, loaded: list[str], name: str, line: str, monkeypatch: pytest.MonkeyPatch
):
    for part in ["", *(f".{part}" for part in loaded)]:
        monkeypatch.delitem(sys.modules, f"gymnasium.envs.box2d{part}", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"^{re.escape(line)}$"):
        make_env(name)
    make_env("CartPole-v1")


def test_an_episode_is_as_long_as_asked():
    env = make_env("halfcheetah", max_episode_steps=3)
    env.reset(seed=0)
    assert [env.step(np.zeros(6))[3] for _ in range(3)] == [False, False, True]
    assert make_env("halfcheetah").spec.max_episode_steps == 1000


@pytest.mark.slow
def test_mujoco_writes_nothing_to_the_terminal_or_the_working_folder_unless_the_user_handles_it(tmp_path: Path):
    program = (
        "import mujoco\n"
        "from supple.envs import make_env\n"
        "env = make_env('halfcheetah')\n"
        "env.reset(seed=0)\n"
        "env.unwrapped.data.qvel[:] = 1e12\n"
        "assert env.step(env.action_space.sample())[4].cause\n"
        "mujoco.set_mju_user_warning(print)\n"
        "make_env('hopper')\n"
        "assert mujoco.get_mju_user_warning() is print\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_the_module_of_an_environment_is_not_imported_and_stripped_once_it_is(tmp_path, monkeypatch):
    (tmp_path / "poles.py").write_text("import gymnasium; gymnasium.register('Pole-v3', entry_point='a:B')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"environment 'poles:Pole-v3': .* --plugin poles"):
        resolve_env("poles:Pole-v3")
    assert "poles" not in sys.modules
    importlib.import_module("poles")
    assert resolve_env("poles:Pole-v3") == "Pole-v3"
    del gym.registry["Pole-v3"], sys.modules["poles"]
