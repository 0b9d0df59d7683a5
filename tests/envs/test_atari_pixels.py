"""Games by name, also without ale-py."""

import importlib.util
import sys
from typing import Any

import gymnasium as gym
import pytest

from supple.envs import games, make_pixels, resolve_env

needs_ale = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale-py is an extra")


@needs_ale
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


def test_without_ale_py_all_names_but_games_are_resolved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    install = r"Atari needs ale-py .*: pip install 'supple\[atari\]'$"
    for atari in ("ALE/Asterix-v5", "beam_rider"):
        with pytest.raises(ImportError, match=install):
            resolve_env(atari)
    assert resolve_env("hopper") == "Hopper-v5"
    with pytest.raises(ValueError, match="did you mean 'hopper'"):
        resolve_env("hoper")
