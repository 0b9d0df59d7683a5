"""Videos of trained agents in reports, which are written also if nothing can be rendered."""

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.sac import SACSettings
from supple.agents.video import record_videos
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.envs import AtariVector, make_env, make_pixels
from supple.experiments import compare
from supple.registry.errors import UsageError
from supple.reports import load
from supple.reports.tables.cells import number
from supple.scripts.report import main
from supple.tracks.linear.settings import LinearSettings

pytestmark = pytest.mark.slow

COMMON: dict[str, Any] = {"num_envs": 2, "eval_episodes": 1}
PPO: dict[str, Any] = COMMON | {
    "rollout_steps": 15, "minibatch_size": 15, "epochs": 1, "hidden": (8,), "adapter": 4, "compile": "off",
}  # fmt: skip
REPLAY: dict[str, Any] = COMMON | {
    "learning_starts": 20, "replay_size": 100, "batch_size": 4, "replay_ratio": 0.2, "device": "cpu",
}  # fmt: skip
KINDS = {
    "ppo": lambda: PPOSettings(env="cartpole", steps=120, **PPO),
    "dqn": lambda: DQNSettings(env="cartpole", steps=120, hidden=(8,), **REPLAY),
    "sac": lambda: SACSettings(
        env="Pendulum-v1", steps=120, actor_width=8, critic_width=8, compile="off", max_episode_steps=30, **REPLAY
    ),
}


def run(folder: Path, kind: str, settings: Any) -> Path:
    prepare(RunSpec(kind, settings), folder / "run", lambda line: None).train(lambda step: None)
    return folder / "run"


def shown(path: Path) -> dict[str, Image.Image]:
    """Return the videos on the page of a report: alternative text → image."""
    page = (path / "report/index.html").read_text()
    found = re.findall(
        r'<details><summary>[^<]+</summary>\s*<figure><img src="data:image/webp;base64,([^"]+)" alt="([^"]+)">', page
    )
    assert len(found) == page.count("data:image")
    return {alt: Image.open(io.BytesIO(base64.b64decode(body))) for body, alt in found}


def contents(path: Path) -> dict[Path, bytes]:
    return {
        file: file.read_bytes() for file in path.rglob("*") if file.is_file() and path / "report" not in file.parents
    }


def logged(path: Path) -> list[float]:
    rows = map(json.loads, (path / "metrics.jsonl").open())
    return [row["eval/return"] for row in rows if "eval/return" in row]


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_shows_the_evaluation_episode_of_the_last_checkpoint(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("pygame")
    path = run(tmp_path, kind, KINDS[kind]())
    before, generators = contents(path), (torch.get_rng_state(), np.random.get_state()[1].copy())  # noqa: NPY002
    variables = dict(os.environ)
    main([str(path), "--video"])
    [(alt, image)] = shown(path).items()
    env = "Pendulum-v1" if kind == "sac" else "CartPole-v1"
    assert alt == f"{env}, one evaluation episode with return {number(logged(path)[-1])}, after 120 steps of seed 0."
    assert image.is_animated
    assert 1 < image.n_frames <= 200
    assert max(image.size) <= 240
    assert contents(path) == before
    assert dict(os.environ) == variables
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert np.array_equal(np.random.get_state()[1], generators[1])  # noqa: NPY002
    assert record_videos(load(path), pytest.fail) == record_videos(load(path), pytest.fail)


def test_without_the_option_nothing_is_recorded(tmp_path: Path) -> None:
    path = run(tmp_path, "ppo", KINDS["ppo"]())
    main([str(path)])
    assert shown(path) == {}


def test_a_comparison_shows_the_first_seed_of_each_arm(tmp_path: Path, here: Any) -> None:
    pytest.importorskip("pygame")
    path = tmp_path / "compared"
    with here():
        compare("ppo", KINDS["ppo"](), ["none", "fire@0.5"], out=path, seeds=[3, 4], warn=lambda line: None)
    main([str(path), "--video"])
    found = [re.sub("return [^,]+,", "…", alt) for alt in shown(path)]
    assert found == [
        f"{arm}: CartPole-v1, one evaluation episode with … after 120 steps of seed 3." for arm in ("none", "fire@0.5")
    ]


def test_an_environment_without_pictures_gives_one_line_and_the_others_are_shown(
    tmp_path: Path, here: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygame")
    path = tmp_path / "compared"
    settings = PPOSettings(sequence="ninerooms,cartpole", steps_per_task=60, cycles=2, **PPO)
    with here():
        compare("ppo", settings, ["none", "fire@0.5"], out=path, warn=lambda line: None)
    capsys.readouterr()
    main([str(path), "--video"])
    why = "the environment has no render mode 'rgb_array'"
    assert capsys.readouterr().err == f"supple: NineRooms-v0: no video, because {why}\n"
    assert [alt.partition(",")[0] for alt in shown(path)] == ["none: CartPole-v1", "fire@0.5: CartPole-v1"]


def test_tasks_that_have_not_begun_are_not_shown(tmp_path: Path) -> None:
    pytest.importorskip("pygame")
    settings = PPOSettings(sequence="cartpole,acrobot", steps_per_task=60, checkpoint_every=60, **PPO)
    path = run(tmp_path, "ppo", settings)
    (newest,) = (path / "checkpoints").glob("*120")
    shutil.rmtree(newest)
    [film] = record_videos(load(path), pytest.fail)
    assert film.caption.startswith("CartPole-v1, ")
    assert "after 60 steps" in film.caption


def test_without_pygame_the_report_is_written_and_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path, "ppo", KINDS["ppo"]())
    monkeypatch.setitem(sys.modules, "pygame", None)
    main([str(path), "--video"])
    why = "pygame is not installed: pip install 'supple[video]'"
    assert capsys.readouterr().err == f"supple: CartPole-v1: no video, because {why}\n"
    assert shown(path) == {}


def test_a_run_without_a_checkpoint_gives_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run(tmp_path, "ppo", KINDS["ppo"]())
    shutil.rmtree(path / "checkpoints")
    main([str(path), "--video"])
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"supple: {path}: no video, because {path} has no checkpoint yet")
    assert shown(path) == {}


def test_runs_without_agents_are_refused(tmp_path: Path) -> None:
    path = run(tmp_path, "linear", LinearSettings(tasks="semantic", updates_per_task=5))
    with pytest.raises(UsageError, match=f"^--video: {path} trains no agent, so there is no episode to show$"):
        main([str(path), "--video"])
    assert not (path / "report").exists()


HOPPER = """
import sys
from dataclasses import replace
from pathlib import Path
from supple.scripts.report import main
main([sys.argv[1], "--video"])
"""


@pytest.fixture(scope="module")
def hopper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mujoco")
    settings = PPOSettings(env="hopper", steps=120, max_episode_steps=5, **PPO)
    return run(tmp_path_factory.mktemp("hopper"), "ppo", settings)


def reported(path: Path, before: str = "") -> list[str]:
    """Return the lines on stderr of a process that writes a report without a display."""
    unset = ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    command = [sys.executable, "-c", before + HOPPER, str(path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_mujoco_is_rendered_without_a_display(hopper: Path) -> None:
    egl = "import mujoco, mujoco.egl; mujoco.egl.GLContext(8, 8)"
    if subprocess.run([sys.executable, "-c", egl], capture_output=True, check=False).returncode:
        pytest.skip("no EGL on this machine")
    assert not [line for line in reported(hopper) if line.startswith("supple:")]
    [(alt, image)] = shown(hopper).items()
    assert alt.startswith(f"Hopper-v5, one evaluation episode with return {number(logged(hopper)[-1])}, ")
    assert image.size == (240, 240)
    assert image.n_frames == 5
    assert np.asarray(image.convert("RGB")).std() > 10


def test_a_machine_that_cannot_render_writes_the_report_and_one_line(hopper: Path) -> None:
    assert reported(hopper, "import mujoco, sys; sys.modules['mujoco.egl'] = None") == [
        "supple: Hopper-v5: no video, because import of mujoco.egl halted; None in sys.modules"
    ]
    assert shown(hopper) == {}


def test_a_game_is_rendered_in_colour_with_the_same_rules() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    fast = make_pixels("ALE/Breakout-v5", 1, sticky=0.0)
    drawn = make_pixels("ALE/Breakout-v5", 1, sticky=0.0, render_mode="rgb_array")
    assert isinstance(fast, AtariVector)
    assert np.array_equal(fast.reset([3]), drawn.reset([3]))
    for action in (1, 0, 2, 3, 2):
        a, b = fast.step(np.array([action])), drawn.step(np.array([action]))
        assert np.array_equal(a.obs, b.obs)
        assert np.array_equal(a.reward, b.reward)
    picture = drawn.envs[0].render()
    assert picture.shape == (210, 160, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 5
    fast.close()
    drawn.close()


def test_a_missing_render_mode_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^the environment has no render mode 'rgb_array'$"):
        make_env("ninerooms", render_mode="rgb_array")


def test_the_video_of_a_stack_is_that_of_its_first_seed(tmp_path: Path) -> None:
    settings = replace(KINDS["ppo"](), seed=3, seeds=(3, 8), num_envs=1)
    path = run(tmp_path, "ppo", settings)
    (video,) = record_videos(load(path), lambda line: None)
    (evaluated,) = [
        row["eval/return"]
        for row in map(json.loads, (path / "metrics.jsonl").open())
        if row.get("seed") == 3 and "eval/return" in row
    ]
    assert f"return {number(evaluated)}, after 120 steps of seed 3." in video.caption
