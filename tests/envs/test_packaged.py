"""MinAtar and MiniGrid: names, spaces, seeds, copies, what is left out, and packages that are missing."""

import copy
import importlib.util
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.agents.spaces import describe_rows
from supple.envs import PACKAGED, EnvironmentFault, Picture, flatten, games, make_env, packaged_names, resolve_env
from supple.envs.make import copies_interfere
from supple.envs.minatar import GAMES, LONGEST

MISSING = [name for name in PACKAGED if importlib.util.find_spec(name) is None]
needs_minatar = pytest.mark.skipif("minatar" in MISSING, reason="minatar is an extra")
needs_minigrid = pytest.mark.skipif("minigrid" in MISSING, reason="minigrid is an extra")


def play(env: gym.Env, steps: int, seed: int | None = 0) -> list[Any]:
    """Return what happens in steps with the same random actions in each call."""
    actions = np.random.default_rng(0).integers(env.action_space.n, size=steps)
    seen = [] if seed is None else [env.reset(seed=seed)[0]]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        seen += [observation, reward, terminated, truncated]
        if terminated or truncated:
            seen.append(env.reset()[0])
    return seen


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))


@pytest.mark.parametrize(
    ("name", "env_id"),
    [
        ("MINATAR:space_invaders", "MinAtar/SpaceInvaders-v0"),
        ("minatar:SpaceInvaders-v0", "MinAtar/SpaceInvaders-v0"),
        ("MinAtar/SpaceInvaders-v0", "MinAtar/SpaceInvaders-v0"),
        ("MiniGrid:doorkey_5x5", "MiniGrid-DoorKey-5x5-v0"),
        ("minigrid:MiniGrid-DoorKey-5x5-v0", "MiniGrid-DoorKey-5x5-v0"),
        ("BabyAI-GoToRedBall-v0", "BabyAI-GoToRedBall-v0"),
        ("minigrid:BabyAI-GoToObjS6-v1", "BabyAI-GoToObjS6-v1"),
    ],
)
def test_an_environment_of_a_package_is_found_by_any_spelling(name: str, env_id: str) -> None:
    pytest.importorskip("minatar" if env_id.startswith("MinAtar") else "minigrid")
    assert resolve_env(name) == env_id


@pytest.mark.parametrize(
    ("module", "name", "line"),
    [
        ("minatar", "minatar:breakout", r"MinAtar needs minatar \(GPL-3.0, .*: pip install 'supple\[minatar\]'$"),
        ("minigrid", "BabyAI-GoToRedBall-v0", r"MiniGrid needs minigrid: pip install 'supple\[minigrid\]'$"),
    ],
)
def test_a_missing_package_is_one_line_with_the_command(
    module: str, name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for env_id in [env_id for env_id in gym.registry if env_id.startswith(("MiniGrid-", "BabyAI-"))]:
        monkeypatch.delitem(gym.registry, env_id)
    with pytest.raises(ImportError, match=f"^{line}"):
        resolve_env(name)
    if module == "minatar":
        with pytest.raises(ImportError, match=f"^{line}"):
            make_env("MinAtar/Breakout-v0")


@pytest.mark.slow
def test_packages_are_imported_only_when_they_are_used_and_print_nothing() -> None:
    uses = {"minigrid": "make_env('minigrid:Empty-5x5').reset(seed=0)", "ale_py": "make_pixels('pong', 1).reset([0])"}
    program = (
        "import sys\n"
        "from supple.envs import make_env, make_pixels, resolve_env\n"
        "assert resolve_env('hopper') == 'Hopper-v5'\n"
        "assert not {'ale_py', 'minatar', 'minigrid', 'mujoco', 'seaborn'} & set(sys.modules)\n"
        + "\n".join(use for module, use in uses.items() if importlib.util.find_spec(module))
    )
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_minatar
@pytest.mark.parametrize(("name", "channels"), [*zip(GAMES, (4, 4, 7, 10, 6), strict=True)])
def test_a_game_is_that_of_the_package_with_all_six_actions(name: str, channels: int) -> None:
    from minatar import Environment

    env, game = make_env(f"minatar:{name}"), Environment(name)
    assert env.observation_space == gym.spaces.Box(0, 1, (10, 10, channels), np.bool_)
    assert env.action_space == gym.spaces.Discrete(6)
    assert env.spec.max_episode_steps == LONGEST
    flat = flatten(env)
    assert flat.picture == Picture(channels, 10, 10, last=True, low=0, high=1)
    game.seed(3)
    game.reset()
    np.testing.assert_array_equal(flat.reset(seed=3)[0], np.ravel(game.state()))
    rewards = 0.0
    for action in np.random.default_rng(1).integers(6, size=300).tolist():
        observation, reward, terminated, truncated, _ = env.step(action)
        wanted, ended = game.act(action)
        assert (reward, terminated, truncated) == (wanted, ended, False)
        np.testing.assert_array_equal(observation, game.state())
        rewards += reward
        if ended:
            game.reset()
            np.testing.assert_array_equal(env.reset()[0], game.state())
    assert rewards > 0 or name in ("freeway", "seaquest")


@pytest.mark.parametrize("name", ["minatar:seaquest", "minigrid:DoorKey-5x5"])
def test_seeds_and_copies_repeat(name: str) -> None:
    pytest.importorskip(name.partition(":")[0])
    env = flatten(make_env(name))
    first = play(env, 60)
    copied = copy.deepcopy(env)
    assert same(play(env, 60, None), play(copied, 60, None))
    env.step(3)  # the last action before a reset must not stick to the first one after it
    assert same(first, play(env, 60))
    assert not same(first, play(env, 60, 1))


@pytest.mark.parametrize("name", ["minatar:breakout", "minigrid:DoorKey-5x5", "minigrid:BabyAI-GoToRedBall"])
def test_copies_are_independent(name: str) -> None:
    pytest.importorskip(name.partition(":")[0])
    assert not copies_interfere(resolve_env(name))


@needs_minatar
def test_arguments_of_the_games_are_those_of_the_package() -> None:
    env = make_env("minatar:breakout", kwargs={"sticky_action_prob": 0.0, "use_minimal_action_set": True})
    assert env.action_space == gym.spaces.Discrete(3)
    places = []
    env.reset(seed=0)
    for action in (1, 2, 1, 2):  # left and right, whose numbers in the package are 1 and 3
        places.append(int(np.argmax(env.step(action)[0][9, :, 0])))
    assert places == [3, 4, 3, 4]
    with pytest.raises(EnvironmentFault, match=r"sticky_action_prob must be a number in \[0, 1\], got 2"):
        make_env("minatar:breakout", kwargs={"sticky_action_prob": 2})


@needs_minatar
def test_a_picture_has_the_colours_of_the_channels() -> None:
    env = make_env("minatar:freeway", render_mode="rgb_array")
    state = env.reset(seed=0)[0]
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((160, 160, 3), np.uint8)
    cells = picture[::16, ::16]
    np.testing.assert_array_equal(picture, cells.repeat(16, 0).repeat(16, 1))
    np.testing.assert_array_equal(cells.any(axis=-1), state.any(axis=-1))
    assert len(np.unique(cells.reshape(-1, 3), axis=0)) == 1 + len(
        {int(np.flatnonzero(c)[-1]) for c in state.reshape(-1, 7) if c.any()}
    )


@needs_minigrid
def test_minigrid_shows_image_and_direction_without_the_mission() -> None:
    env = make_env("minigrid:DoorKey-5x5")
    assert env.action_space == gym.spaces.Discrete(7)
    assert set(env.observation_space.spaces) == {"image", "direction"}
    flat = flatten(env)
    assert flat.picture == Picture(3, 7, 7, last=True, low=0, high=10)
    row, shown = flat.reset(seed=0)[0], env.reset(seed=0)[0]
    np.testing.assert_array_equal(row[:147], shown["image"].ravel())
    np.testing.assert_array_equal(row[147:], np.eye(4)[shown["direction"]])
    line = describe_rows("MiniGrid-DoorKey-5x5-v0", None, "auto")
    assert "images of 7 × 7 pixels and 3 channels" in line
    assert line.endswith("; the text of its mission is left out")
    assert make_env("minigrid:DoorKey-5x5", kwargs={"agent_view_size": 5}).observation_space["image"].shape == (5, 5, 3)


@needs_minigrid
def test_a_wrapper_of_minigrid_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from minigrid.wrappers import ImgObsWrapper, RGBImgPartialObsWrapper

    def made(pixels: bool = True) -> gym.Env:
        env = gym.make("MiniGrid-Empty-5x5-v0")
        return ImgObsWrapper(RGBImgPartialObsWrapper(env, tile_size=4) if pixels else env)

    resolve_env("minigrid:Empty-5x5")
    monkeypatch.setitem(gym.registry, "MiniGrid-Mine-v0", gym.envs.registration.EnvSpec("MiniGrid-Mine-v0", made))
    assert resolve_env("minigrid:mine") == "MiniGrid-Mine-v0"
    assert make_env("MiniGrid-Mine-v0").observation_space == gym.spaces.Box(0, 255, (28, 28, 3), np.uint8)
    assert "no value above" not in describe_rows("MiniGrid-Mine-v0", None, "auto")
    line = describe_rows("MiniGrid-Mine-v0", {"pixels": False}, "auto")
    assert line.endswith("no value above 8: if none has, give its space that bound")


@pytest.mark.slow
def test_games_and_environments_of_packages_are_listed_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from supple.scripts.list import main

    def shown(*words: str) -> str:
        main([*words])
        return " ".join(capsys.readouterr().out.split())  # lines may be broken: the terminal's width is as it is

    found = shown("games")
    for module in MISSING:
        assert f"pip install 'supple[{module}]'" in found
    known = {} if importlib.util.find_spec("ale_py") is None else games()
    for module in PACKAGED.keys() - set(MISSING):
        known |= packaged_names(module)
    assert all(f"{short} {env_id}" in found for short, env_id in known.items())
    for module in ("ale_py", *PACKAGED):
        monkeypatch.setitem(sys.modules, module, None)
    for extra in ("atari", *PACKAGED):
        assert f"supple[{extra}]" in shown("games", "--match", "pip install")
    assert "supple list games" in shown("environments")
    assert "ALE/" not in shown()
