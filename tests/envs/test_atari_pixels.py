"""Images of any registered environment as DQN sees them; games by name; all of it without ale-py as well."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import Episode, Vector, games, make_env, make_pixels, resolve_env

needs_ale = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale-py is an extra")


class Clock(gym.Env):
    """An environment whose pixels are all the number of its step, from 1, with episodes of five steps."""

    def __init__(self, shape: tuple[int, ...] = (36, 40), actions: int = 3) -> None:
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gym.spaces.Discrete(actions)
        self.time = 1

    def _frame(self) -> np.ndarray:
        return np.full(self.observation_space.shape, self.time, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.time = 1
        return self._frame(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.time += 1
        return self._frame(), float(action), self.time == 6, False, {}


@pytest.fixture(autouse=True)
def clocks() -> Iterator[None]:
    ids = {"Clock-v0": {}, "ColourClock-v0": {"shape": (36, 36, 3)}, "SmallClock-v0": {"shape": (36, 35)}}
    for env_id, arguments in ids.items():
        gym.register(env_id, Clock, kwargs=arguments)
    yield
    for env_id in ids:
        del gym.registry[env_id]


def test_any_environment_of_grey_frames_is_stacked_with_zeros_before_the_first():
    envs = make_pixels("Clock-v0", 2, sticky=0.9, sticky_per="step", max_frames=8, threads=1)
    assert isinstance(envs, Vector)
    assert envs.single_observation_space == gym.spaces.Box(0, 255, (4, 36, 40), np.uint8)
    assert envs.single_action_space == gym.spaces.Discrete(3)
    obs = envs.reset([0, 1])
    assert obs.dtype == np.uint8
    np.testing.assert_array_equal(obs[:, :, 0, 0], [[0, 0, 0, 1]] * 2)
    for time in range(2, 7):
        result = envs.step(np.array([1, 2]))
        assert list(result.reward) == [1, 2]  # neither stickiness nor a cap outside Atari
        np.testing.assert_array_equal(result.final_obs[1, :, 5, 5], np.maximum(np.arange(time - 3, time + 1), 0))
    np.testing.assert_array_equal(result.obs[:, :, 9, 9], [[0, 0, 0, 1]] * 2)
    assert result.episodes == [Episode(0, 5.0, 5), Episode(1, 10.0, 5)]


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ("HalfCheetah-v5", r"DQN needs discrete actions, but HalfCheetah-v5 has Box\(.*: use ppo$"),
        ("CartPole-v1", r"CartPole-v1 has Box\(.*wrappers.AddRenderObservation, then GrayscaleObservation, around"),
        ("ColourClock-v0", r"ColourClock-v0 has Box\(.*36, 36, 3.*gymnasium.wrappers.GrayscaleObservation around"),
        ("SmallClock-v0", "images of at least 36 × 36, but SmallClock-v0 has 36 × 35: .*ResizeObservation around"),
        ("Blackjack-v1", r"Blackjack-v1 has Tuple\("),
        ("qqqq-v3", "unknown environment 'qqqq-v3'"),
    ],
)
@needs_ale
def test_environments_that_dqn_cannot_play_are_refused_by_name(env: str, complaint: str):
    with pytest.raises(ValueError, match=complaint) as error:
        make_pixels(env, 1)
    assert "\n" not in str(error.value)


@needs_ale
@pytest.mark.parametrize(
    "name",
    ["beam_rider", "BeamRider", "beamrider", "BEAM-RIDER", "Beam Rider", "ALE/BeamRider-v5", "ale/beamrider-v5"],
)
def test_games_are_found_by_any_spelling(name: str):
    assert resolve_env(name) == "ALE/BeamRider-v5"


@pytest.mark.slow
@needs_ale
def test_the_games_are_those_of_ale_py():
    import ale_py.roms

    known = games()
    assert set(known) <= set(ale_py.roms.get_all_rom_ids())
    assert len(known) > 100
    for short, env_id in known.items():
        assert resolve_env(short) == resolve_env(env_id) == env_id
        assert gym.spec(env_id).kwargs["game"] == short


@needs_ale
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("asterx", "did you mean 'asterix'"),
        ("BeamRyder", "did you mean 'beam_rider'"),
        ("ALE/Asterx-v5", "did you mean 'ALE/Asterix-v5'"),
        ("ALE/Asterix-v4", "did you mean 'ALE/Asterix-v5'"),
        ("AsterixNoFrameskip-v4", "did you mean 'ALE/Asterix-v5', its successor"),
        ("Asterix-ramDeterministic-v0", "did you mean 'ALE/Asterix-v5', its successor"),
    ],
)
def test_an_unknown_game_is_refused_with_near_names_and_where_they_are_listed(name: str, near: str):
    games()
    with pytest.raises(ValueError, match=rf"unknown environment '{name}': {near}.*`supple list games`") as error:
        resolve_env(name)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@needs_ale
def test_ale_py_is_only_imported_for_games_and_prints_nothing():
    program = (
        "import sys\n"
        "from supple.envs import make_env, make_pixels, resolve_env\n"
        "assert resolve_env('hopper') == 'Hopper-v5' and resolve_env('CartPole-v1') == 'CartPole-v1'\n"
        "assert 'ale_py' not in sys.modules\n"
        "envs = make_pixels('pong', 1)\n"
        "envs.reset([0])\n"
        "envs.close()\n"
        "assert make_env('pong').reset(seed=0)[0].shape == (210, 160, 3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_ale_py_all_names_but_games_are_resolved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    install = r"Atari needs ale-py .*: pip install 'supple\[atari\]'$"
    for atari in ("ALE/Asterix-v5", "asterix", "beam_rider"):
        with pytest.raises(ImportError, match=install) as error:
            resolve_env(atari)
        assert "\n" not in str(error.value)
    assert resolve_env("hopper") == "Hopper-v5"
    make_env("CartPole-v1").close()
    make_pixels("Clock-v0", 1).close()
    with pytest.raises(ValueError, match="did you mean 'hopper'"):
        resolve_env("hoper")


@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, pytest.param(True, id="missing")])
def test_games_are_listed_when_asked_for(
    missing: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from supple.scripts.list import main

    if missing:
        monkeypatch.setitem(sys.modules, "ale_py", None)
    main(["games"])
    shown = " ".join(capsys.readouterr().out.split())  # lines may be broken: the terminal's width is as it is
    if missing or importlib.util.find_spec("ale_py") is None:
        assert "pip install 'supple[atari]'" in shown
    else:
        assert all(short in shown and env_id in shown for short, env_id in games().items())
    main(["environments"])
    assert "supple list games" in " ".join(capsys.readouterr().out.split())
    main([])
    assert "ALE/" not in capsys.readouterr().out
