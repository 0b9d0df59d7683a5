"""Videos of trained agents in reports, which are written also if nothing can be rendered."""

import base64
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from supple.agents.video import record_videos
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.envs import AtariVector, make_pixels
from supple.experiments import compare
from supple.registry.errors import UsageError
from supple.reports import load
from supple.reports.tables.cells import number
from supple.scripts.main import dispatch
from supple.scripts.report import main
from supple.tracks.linear.settings import LinearSettings
from tests.agents.small import lines, settings, train

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_figures")]

ONE: dict[str, Any] = {"cycles": 1, "eval_episodes": 1}


def shown(path: Path) -> dict[str, Image.Image]:
    """Return the videos on the page of a report: alternative text → image."""
    page = (path / "report/index.html").read_text()
    found = re.findall(
        r'<details><summary>[^<]+</summary>\s*<figure><img src="data:image/webp;base64,([^"]+)" alt="([^"]+)">', page
    )
    assert len(found) == page.count("data:image/webp")
    return {alt: Image.open(io.BytesIO(base64.b64decode(body))) for body, alt in found}


def contents(path: Path) -> dict[Path, bytes]:
    return {
        file: file.read_bytes() for file in path.rglob("*") if file.is_file() and path / "report" not in file.parents
    }


def logged(path: Path, seed: int = 0) -> str:
    """Return the last return of a seed, as reports show it."""
    rows = [row for row in lines(path, "metrics") if "eval/return" in row and row.get("seed", seed) == seed]
    return number(rows[-1]["eval/return"])


@pytest.mark.parametrize(("kind", "seeds"), [("ppo", (0,)), ("dqn", (0,)), ("sac", (0,)), ("ppo", (3, 8))])
def test_the_page_shows_the_evaluation_episode_of_the_last_checkpoint_and_the_first_seed(
    kind: str, seeds: tuple[int, ...], tmp_path: Path
) -> None:
    pytest.importorskip("pygame")
    path = train(kind, tmp_path / "run", seeds, **ONE)
    before, generators = contents(path), (torch.get_rng_state(), np.random.get_state()[1].copy())  # noqa: NPY002
    variables = dict(os.environ)
    main([str(path), "--video"])
    [(alt, image)] = shown(path).items()
    env, (seed, *_) = "Pendulum-v1" if kind == "sac" else "CartPole-v1", seeds
    assert alt == f"{env}, one evaluation episode with return {logged(path, seed)}, after 120 steps of seed {seed}."
    assert image.is_animated
    assert 1 < image.n_frames <= 200
    assert max(image.size) <= 240
    assert contents(path) == before
    assert dict(os.environ) == variables
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert np.array_equal(np.random.get_state()[1], generators[1])  # noqa: NPY002
    assert record_videos(load(path), pytest.fail) == record_videos(load(path), pytest.fail)


def test_a_comparison_shows_each_arms_first_seed_and_says_once_which_environments_have_no_pictures(
    tmp_path: Path, here: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pygame")
    path, chosen = tmp_path / "compared", settings("ppo", env=None, sequence="ninerooms,cartpole", steps_per_task=60)
    with here():
        compare("ppo", chosen, ["none", "fire@0.5"], out=path, seeds=[3, 4], warn=lambda line: None)
    capsys.readouterr()
    main([str(path), "--video"])
    why = "the environment has no render mode 'rgb_array'"
    assert capsys.readouterr().err == f"supple: NineRooms-v0: no video, because {why}\n"
    found = [re.sub("return [^,]+,", "…", alt) for alt in shown(path)]
    assert found == [
        f"{arm}: CartPole-v1, one evaluation episode with … after 240 steps of seed 3." for arm in ("none", "fire@0.5")
    ]


def test_a_run_that_is_asked_for_a_video_ends_with_its_report(tmp_path: Path) -> None:
    pytest.importorskip("pygame")
    words = "train ppo --env CartPole-v1 --steps 80 --num-envs 2 --rollout-steps 40 --hidden 8 --compile off"
    dispatch([*words.split(), "--eval-episodes", "0", "--capture-video", "--out", str(tmp_path / "run")])
    assert [alt.split(",")[0] for alt in shown(tmp_path / "run")] == ["CartPole-v1"]


def test_tasks_that_have_not_begun_are_not_shown(tmp_path: Path) -> None:
    pytest.importorskip("pygame")
    path = train("ppo", tmp_path / "run", env=None, sequence="cartpole,acrobot", steps_per_task=60, **ONE)
    (newest,) = (path / "checkpoints").glob("*120")
    shutil.rmtree(newest)
    [film] = record_videos(load(path), pytest.fail)
    assert film.caption.startswith("CartPole-v1, ")
    assert "after 60 steps" in film.caption


def test_a_report_without_videos_is_written_and_one_line_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = train("ppo", tmp_path / "run", **ONE)
    monkeypatch.setitem(sys.modules, "pygame", None)
    main([str(path)])
    assert capsys.readouterr().err == ""  # nothing was asked for
    assert shown(path) == {}
    main([str(path), "--video"])
    why = "pygame is not installed: pip install 'supple[video]'"
    assert capsys.readouterr().err == f"supple: CartPole-v1: no video, because {why}\n"
    assert shown(path) == {}
    shutil.rmtree(path / "checkpoints")
    main([str(path), "--video"])
    assert capsys.readouterr().err.startswith(f"supple: {path}: no video, because {path} has no checkpoint yet")


def test_runs_without_agents_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    prepare(RunSpec("linear", LinearSettings(tasks="semantic", updates_per_task=5)), path, lambda line: None).train()
    with pytest.raises(UsageError, match=f"^--video: {path} trains no agent"):
        main([str(path), "--video"])
    assert not (path / "report").exists()


HOPPER = """
import sys
from supple.scripts.report import main
from tests.figures import empty_figures
with empty_figures():
    main([sys.argv[1], "--video"])
"""


@pytest.fixture(scope="module")
def hopper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mujoco")
    return train("ppo", tmp_path_factory.mktemp("hopper") / "run", env="hopper", max_episode_steps=5, **ONE)


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
    assert alt.startswith(f"Hopper-v5, one evaluation episode with return {logged(hopper)}, ")
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
