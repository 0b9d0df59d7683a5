"""Environments by name: ids, terminations, friction, clipping, and a quiet MuJoCo."""

import importlib
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import environment_names, games, has_friction, make_env, make_pixels, resolve_env
from supple.envs.make import copies_interfere


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
    pytest.param("BeamRyder", "did you mean 'beam_rider'", marks=ALE),
    pytest.param("ALE/Asterx-v5", "did you mean 'ALE/Asterix-v5'", marks=ALE),
    pytest.param("qqqq", "use one of halfcheetah, hopper", marks=ALE),  # else it may be a game
    pytest.param("minatar:brekout", "MinAtar has no environment 'minatar:brekout': did you mean 'minatar:Breakout'?",
                 marks=EXTRA["minatar"]),
    pytest.param("minigrid:DorKey-5x5", "did you mean 'minigrid:DoorKey-5x5' or", marks=EXTRA["minigrid"]),
    # successors of old ids
    ("LunarLander-v2", "did you mean 'LunarLander-v3', its successor"),
    ("halfcheetah-v1", "did you mean 'HalfCheetah-v5', its successor"),
    pytest.param("SpaceInvaders-ramDeterministic-v4", "'ALE/SpaceInvaders-v5', its successor", marks=ALE),
    ("HalfCheetah-v3", "HalfCheetah-v3 can no longer be made: its successor is 'HalfCheetah-v5'"),
    # what makes those of known packages work
    ("minigrid", "environment 'minigrid': MiniGrid's tasks are named like minigrid:DoorKey-5x5"),
    ("dm_control/walker-walk-v0", "'mujoco<4'"),
    ("metaworld:reach-v3", "metaworld 3.0.0 fails"),
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


def test_friction_scales_the_sliding_column_of_every_geom_and_nothing_else():
    normal, slippery = make_env("ant").unwrapped.model, make_env("ant", friction=0.25).unwrapped.model
    np.testing.assert_allclose(slippery.geom_friction[:, 0], 0.25 * normal.geom_friction[:, 0])
    np.testing.assert_array_equal(slippery.geom_friction[:, 1:], normal.geom_friction[:, 1:])
    np.testing.assert_array_equal(slippery.body_mass, normal.body_mass)
    assert slippery.npair == 0  # no contact pair with a friction of its own


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


@ALE
@pytest.mark.parametrize(
    ("name", "more", "line"),
    [
        ("CartPole-v1", {}, "CartPole-v1 is not an Atari game: see `supple list games`"),
        ("ALE/Asterix-ram-v5", {}, "unknown environment 'ALE/Asterix-ram-v5': did you mean 'ALE/Asterix-v5'"),
        ("pong", {"max_episode_steps": 9}, "use --max-frames"),
        ("pong", {"kwargs": {"mode": 1}}, "--shift mode instead"),
    ],
)
def test_what_games_do_not_take_is_refused_in_one_line(name: str, more: dict[str, Any], line: str):
    with pytest.raises(ValueError, match=line) as error:
        make_pixels(name, 1, **more)
    assert "\n" not in str(error.value)


@ALE
@pytest.mark.parametrize(
    "name",
    ["beam_rider", "BeamRider", "beamrider", "BEAM-RIDER", "Beam Rider", "ALE/BeamRider-v5", "ale/beamrider-v5"],
)
def test_games_are_found_by_any_spelling(name: str):
    assert resolve_env(name) == "ALE/BeamRider-v5"


@pytest.mark.slow
@ALE
def test_the_games_are_those_of_ale_py():
    import ale_py.roms

    known = games()
    assert set(known) <= set(ale_py.roms.get_all_rom_ids())
    assert len(known) > 100
    for short, env_id in known.items():
        assert resolve_env(short) == resolve_env(env_id) == env_id
        assert gym.spec(env_id).kwargs["game"] == short


def test_without_ale_py_all_names_but_games_are_resolved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    install = r"Atari needs ale-py .*: pip install 'supple\[atari\]'$"
    for atari in ("ALE/Asterix-v5", "beam_rider"):
        with pytest.raises(ImportError, match=install):
            resolve_env(atari)
    assert resolve_env("hopper") == "Hopper-v5"
    with pytest.raises(ValueError, match="did you mean 'hopper'"):
        resolve_env("hoper")


class Walk(gym.Env):
    """A walk whose steps come from the environment's generator (own), NumPy's (global), or go on in all copies."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Discrete(2)
    together = 0.0

    def __init__(self, kind: str = "own") -> None:
        self.kind = kind

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0.0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += self.np_random.random() if self.kind == "own" else 0.0
        self.place += np.random.random() if self.kind == "global" else 0.0  # noqa: NPY002
        if self.kind == "together":
            Walk.together += 1
            self.place = Walk.together
        return np.array([self.place], np.float32), self.place, False, False, {}


@pytest.mark.parametrize("kind", ["own", "global", "together"])
def test_copies_with_a_common_variable_or_generator_interfere(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gym.registry, "Walk-v0", gym.envs.registration.EnvSpec("Walk-v0", Walk))
    assert copies_interfere("Walk-v0", json.dumps({"kind": kind})) == (kind != "own")
