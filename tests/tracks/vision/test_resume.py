"""`kill -9` at any moment, then `supple vision --resume`: the same bytes as a run that was never killed."""

import contextlib
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from supple.scripts.console import run as run_script
from supple.scripts.main import dispatch

# 3 tasks of 30 updates, 4 to an epoch and a half: checkpoints lie within tasks and within epochs
SPLIT = (
    "split-cifar-100 --dataset mnist --tasks 3 --classes-per-task 2 --epochs 10 --batch-size 8 --replay 20 --network mlp "
    "--width 10 --seeds 0 1 --checkpoint-every 13 --measure-every 9 --eval-every 2 --compile off "
    "--activation rand_smooth_leaky"
).split()
HOOKS = ("redo(tau=0.5)@every:7", "l2_init(strength=1e-3)", "snp(noise=0.1)@task")
EXCHANGES = ("ewc(samples=16)", "hare_tortoise@every:11", "muon@0.4", "swap(activation=rrelu)@0.5", "injection@0.6")
RESNET = (
    "warm-start --dataset mnist --network resnet18 --width 4 --first-epochs 6 --epochs 2 --batch-size 12 "
    "--checkpoint-every 4 --measure-every 5 --hook cbp(replacement_rate=0.1,maturity=2) --hook dash@task"
).split()


def split(hooks: Sequence[str]) -> list[str]:
    return [*SPLIT, *(word for hook in hooks for word in ("--hook", hook))]


def process(words: Sequence[str], errors: Path) -> int:
    """A process of its own that runs `supple`, forked from this one: importing PyTorch again would take seconds."""
    if child := os.fork():
        return child
    try:
        with errors.open("w") as file:
            os.dup2(file.fileno(), 2)
            sys.argv = ["supple", *words]
            run_script(dispatch)
    except SystemExit as stop:
        os._exit(int(stop.code or 0))
    finally:
        os._exit(70)


def finished(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def assert_same(run: Path, reference: Path, lab: Any) -> None:
    for name in ("metrics", "tasks", "events"):
        assert lab.log(run, name) == lab.log(reference, name), name
    folders = [sorted((each / "checkpoints").iterdir()) for each in (run, reference)]
    assert [folder.name for folder in folders[0]] == [folder.name for folder in folders[1]]
    for ours, theirs in zip(*folders, strict=True):
        assert (ours / "state.safetensors").read_bytes() == (theirs / "state.safetensors").read_bytes()


RUNS = {"split": split(HOOKS), "exchanges": split(EXCHANGES), "resnet18": RESNET}


@pytest.fixture(scope="module", params=RUNS)
def reference(request: pytest.FixtureRequest, lab: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A run that is never killed, and how long it took."""
    folder = tmp_path_factory.mktemp(request.param)
    begun = time.monotonic()
    child = process(lab.command(*RUNS[request.param], "--out", folder / "run"), folder / "errors")
    assert finished(child) == 0, (folder / "errors").read_text()
    return folder / "run", time.monotonic() - begun


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments(
    lab: Any, tmp_path: Path, reference: tuple[Path, float], request: pytest.FixtureRequest, seed: int
) -> None:
    (finished_run, seconds), run, kills = reference, tmp_path / "run", 0
    moments = random.Random(seed)
    name = finished_run.parent.name.rstrip("0123456789")
    while True:
        begun = (run / "config.json").exists()
        words = ["vision", "--resume", str(run)] if begun else lab.command(*RUNS[name], "--out", run)
        child = process(words, tmp_path / "errors")
        if kills < 4:
            time.sleep(moments.uniform(0.2, 0.8) * seconds)
            with contextlib.suppress(ProcessLookupError):  # it was done already
                os.kill(child, signal.SIGKILL)
        if (code := finished(child)) == 0:
            break
        assert code == -signal.SIGKILL, (tmp_path / "errors").read_text()
        kills += 1
    assert_same(run, finished_run, lab)


def test_from_each_checkpoint_the_run_goes_on_as_it_did(
    lab: Any, tmp_path: Path, reference: tuple[Path, float]
) -> None:
    kept = sorted((reference[0] / "checkpoints").iterdir())
    assert len(kept) == 2
    run = shutil.copytree(reference[0], tmp_path / "run")
    shutil.rmtree(run / "checkpoints" / kept[-1].name)
    lab.resume(run)
    assert_same(run, reference[0], lab)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_leads_to_the_same_end(
    lab: Any, tmp_path: Path, reference: tuple[Path, float]
) -> None:
    run = shutil.copytree(reference[0], tmp_path / "run")
    damaged = max((run / "checkpoints").iterdir()) / "state.safetensors"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    assert finished(process(["vision", "--resume", str(run)], tmp_path / "errors")) == 0
    (line,) = (tmp_path / "errors").read_text().splitlines()
    assert str(damaged) in line
    assert "going back to the checkpoint before it" in line
    assert_same(run, reference[0], lab)


def test_a_finished_run_is_left_untouched(lab: Any, reference: tuple[Path, float]) -> None:
    before = {path: path.stat().st_mtime_ns for path in reference[0].rglob("*")}
    lab.resume(reference[0])
    assert before == {path: path.stat().st_mtime_ns for path in reference[0].rglob("*")}
