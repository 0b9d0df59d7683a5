"""On imitated Windows and macOS (tests/other_systems), every module is imported, and runs are killed and resumed.

    pytest -s tests/stress/test_other_systems.py

A run counts as held if it is killed on the imitated system before its second checkpoint, resumed there without a word
on stderr, and ends with the bytes of a run that was trained on Linux and never killed.
"""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.test_other_systems import ROOMS, contents, pretended

SYSTEMS = ("windows", "macos")
CARTPOLE = "--env CartPole-v1 --hidden 16 --checkpoint-every 128 --eval-every 0"
OFF_POLICY = "--steps 400 --learning-starts 64 --replay-size 300"
SMALL_PPO = f"ppo {CARTPOLE} --num-envs 2 --rollout-steps 32 --minibatch-size 32 --epochs 2"
PPO = f"{SMALL_PPO} --steps 512"
CYCLES = f"{SMALL_PPO} --cycles 2 --steps-per-task 256 --shift offset(scale=2)"
LINEAR = "linear --tasks semantic,reversal --updates-per-task 40 --checkpoint-every 20"
KINDS = {
    "linear": f"{LINEAR} --hook rebalance(lam=5)@task",
    "linear, kept states": f"{LINEAR} --keep-at 20 60 --hook snp@task",
    "ppo": f"{PPO} --hook fire@0.5",
    "ppo, environment workers": f"{PPO} --env-workers 2 --hook snp@0.5",
    "ppo, shift and best": f"{CYCLES} --keep-best True --hook l2_init(strength=1e-3)",
    "dqn": f"dqn {CARTPOLE} {OFF_POLICY} --hook redo@every:100",
    "dqn, memory in a file": f"dqn {CARTPOLE} {OFF_POLICY} --replay-folder FOLDER",
    "sac": "sac --env Pendulum-v1 --steps 192 --learning-starts 80 --replay-size 150 --batch-size 16 --actor-width 16 "
    "--critic-width 16 --actor-blocks 1 --critic-blocks 1 --compile off --checkpoint-every 64 --eval-every 0",
    "pretrain": "pretrain --first FOLDER/text.txt --pretrain-steps 12 --warmup 2 --layers 1 --heads 1 --width 16 "
    "--block-size 16 --batch-size 4 --micro-batch 4 --checkpoint-every 4 --eval-every 4 --hook fire@0.5",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text of letters that cp1252 does not have."""
    made, draw = tmp_path_factory.mktemp("data"), random.Random(0)
    lines = (" ".join(draw.choices(["der", "schnelle", "λ", "füchs", "→", "springt"], k=9)) for _ in range(400))
    (made / "text.txt").write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return made


def held(what: str, system: str, attempts: dict[str, str]) -> None:
    """Print the count, and fail unless every attempt held."""
    fell = {name: why for name, why in attempts.items() if why}
    print(f"\n{system}, {what}: {len(attempts)} attempts, {len(attempts) - len(fell)} held")
    assert attempts
    assert not fell, "\n".join(f"{name}: {why}" for name, why in fell.items())


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_module_can_be_imported(system: str) -> None:
    code, (found,) = pretended(system, [["import", *ROOMS]])
    assert code == 0
    held("modules", system, found)


@pytest.mark.parametrize("system", SYSTEMS)
def test_runs_of_every_kind_are_killed_and_resumed_to_the_same_bytes(system: str, folder: Path, tmp_path: Path) -> None:
    found = {}
    for name, text in KINDS.items():
        if (system, name) == ("windows", "dqn, memory in a file"):
            continue  # Python's tempfile has a way of its own there, which it chooses by `os.name`
        words = text.replace("FOLDER", str(folder)).split()
        place = tmp_path / name.replace(", ", "-").replace(" ", "-")
        found[name] = _killed_and_resumed(system, words, place)
        print(f"\n{system}, {name}: {found[name] or 'held'}", end="", flush=True)
    held("runs", system, found)


def _killed_and_resumed(system: str, words: list[str], place: Path) -> str:
    """Return "" or what was wrong."""
    whole, cut = place / "whole", place / "cut"
    code, done = pretended("", [["train", *words, "--out", str(whole)]])
    if (code, done) != (0, [[0, ""]]):
        return f"on Linux: {code} {done}"
    code, done = pretended(system, [["train", *words, "--out", str(cut)]], 2)
    if code != 9:
        return f"not killed: {code} {done}"
    code, done = pretended(system, [["resume", str(cut)], ["report", str(cut)], ["resume", str(cut)]])
    if (code, done) != (0, [[0, ""]] * 3):
        return f"resumed: {code} {done}"
    if contents(whole) != contents(cut):
        return "other bytes"
    return _left_behind(cut)


def _left_behind(path: Path) -> str:
    left = [*path.rglob("*.tmp"), *path.rglob("tmp-*"), *path.rglob("claim.json"), *path.rglob("*.lock")]
    return f"left behind: {left}" if left else ""


SWEEP = """
["Größe"]
kind = "linear"
arms = ["none", "snp(lam={strength})@0.5", "redo@every:10"]
seeds = "0-1"
settings = { tasks = "semantic,reversal", updates_per_task = 20 }
fork_at = 0.25
grid = { strength = [0.5, 0.8] }
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_commands_work_as_on_linux(system: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several runs are trained by two workers."""
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    out, run = str(tmp_path / "out"), str(tmp_path / "ppo")
    arms = [
        "--arm",
        "none",
        "--arm",
        "snp@0.9",
        "--arm",
        "redo@every:20",
        "--seeds",
        "0-1",
        "--jobs",
        "2",
        "--out",
        out,
    ]
    commands: dict[str, list[str]] = {
        "versions": ["--version"],
        "list": ["list", "interventions"],
        "compare": ["compare", *LINEAR.split(), "--fork-at", "0.5", *arms],
        "resume a comparison": ["resume", out],
        "report a comparison": ["report", out],
        "sweep": ["sweep", str(tmp_path / "sweep.toml"), "--out", str(tmp_path / "sweep"), "--jobs", "2"],
        "worker": ["worker", str(tmp_path / "sweep")],
        "dry run": ["sweep", str(tmp_path / "sweep.toml"), "--out", str(tmp_path / "other"), "--dry-run"],
        "train": ["train", *PPO.split(), "--hook", "fire@0.5", "--out", run],
        "extend": ["resume", run, "--steps", "640"],
        "report a run": ["report", run],
        "doctor": ["doctor", run],
        "threads": ["train", *LINEAR.split(), "--threads", "auto", "--out", str(tmp_path / "threads")],
        "new": ["new", "intervention", "of_other_systems", "--out", str(tmp_path)],
        "check": ["check", str(tmp_path / "of_other_systems.py")],
        "figure": ["linear", "--help"],
        "refuse a folder": ["train", *LINEAR.split(), "--out", run],
        "refuse a file": ["resume", str(tmp_path / "sweep.toml")],
    }
    spoken = {"extend", "threads", "refuse a folder", "refuse a file"}  # of which a line on stderr is right
    code, done = pretended(system, list(commands.values()))
    assert code == 0
    found = {}
    for name, (status, said) in zip(commands, done, strict=True):
        wanted = 2 if name.startswith("refuse") else 0
        lines = 1 if name in spoken else 0
        right = status == wanted and said.count("\n") <= lines and (lines or not said)
        found[name] = "" if right else f"{status}: {said[-600:]}"
    found["nothing left behind"] = _left_behind(tmp_path)
    held("commands", system, found)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_worker_ends_with_its_parent(system: str, tmp_path: Path, alone: Callable[..., Any]) -> None:
    out = tmp_path / "out"
    words = [*LINEAR.split(), "--updates-per-task", "100000", "--arm", "none", "--arm", "snp@0.9", "--jobs", "2"]
    held("parents that are killed", system, {"compare": alone(system, ["compare", *words, "--out", str(out)], out)})


@pytest.fixture
def alone() -> Callable[[str, list[str], Path], str]:
    import os
    import time

    import psutil

    from tests.test_other_systems import ROOT

    def kill(system: str, words: list[str], out: Path) -> str:
        own = {"PYTHONPATH": str(ROOT / "tests" / "other_systems"), "SUPPLE_PRETEND": system, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pretended", json.dumps([words])]
        parent = subprocess.Popen(command, env=os.environ | own, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 300
        while len([*out.rglob("checkpoints/0*")]) < 2:
            if time.monotonic() > until or parent.poll() is not None:
                parent.kill()
                return f"it did not begin ({parent.poll()})"
            time.sleep(0.1)
        workers = psutil.Process(parent.pid).children()
        parent.kill()
        parent.wait()
        _, alive = psutil.wait_procs(workers, 5)
        return f"{len(alive)} of {len(workers)} live on" if alive else ""

    return kill
