"""Games by name, also without ale-py."""

import importlib.util
import subprocess
import sys

import gymnasium as gym
import pytest

from supple.envs import games, make_env, make_pixels, resolve_env

needs_ale = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale-py is an extra")


def test_an_environment_that_is_no_game_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^CartPole-v1 is not an Atari game: see `supple list games`$"):
        make_pixels("CartPole-v1", 1, shifts="none")


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
