"""Comparisons of classifiers: arms begin in one state, and are what the same hooks do in a run of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from supple.experiments import compare
from supple.experiments.errors import UsageError
from supple.scripts.compare import main

TASKS = "permuted-mnist --tasks 3 --images 48 --epochs 2 --batch-size 8 --width 8 --measure-every 7 --eval-every 1"
LOGS = ("metrics", "tasks", "events")
ARMS = {"none": (), "fire@task": ("fire@task",), "dash": ("dash@task:1",), "ewc(samples=16)": ("ewc(samples=16)",),
        "snp(noise=0.1) + redo(tau=0.5)@every:5": ("snp(noise=0.1)@task:1", "redo(tau=0.5)@every:5")}  # fmt: skip


class InProcess:
    """Stands in for the pool of worker processes: what is submitted is done at once, here."""

    def __init__(self, jobs: int, context: Any, begin: Callable[..., None], messages: tuple[Any, Any]) -> None:
        compare._messages = messages[0]

    def submit(self, work: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args))
        return future

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *_: object) -> None:
        compare._messages = None


@pytest.fixture(scope="module")
def here() -> Iterator[pytest.MonkeyPatch]:
    """Comparisons run in this process, without a report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "ProcessPoolExecutor", InProcess)
        patch.setattr("supple.scripts.compare.show", lambda path: None)
        yield patch


def words(lab: Any, line: str, *arms: str, out: Path) -> list[str]:
    named = [word for arm in arms for word in ("--arm", arm)]
    return [*lab.command(*line.split(), *named, "--compile", "off", "--out", out)]


@pytest.fixture(scope="module")
def whole(here: pytest.MonkeyPatch, lab: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of two seeds as one stack, forked where the second of three tasks begins."""
    out = tmp_path_factory.mktemp("compare") / "whole"
    main(words(lab, f"{TASKS} --seeds 3 4 --fork-at-task 1", *ARMS, out=out))
    return out / "seeds-3-4"


def state(run: Path, step: int) -> bytes:
    return (run / f"checkpoints/{step:012d}/state.safetensors").read_bytes()


def test_arms_begin_with_the_trunks_state_bit_for_bit(whole: Path) -> None:
    assert sorted(path.name for path in whole.iterdir()) == sorted(["trunk", *map(compare.slug, ARMS)])
    for arm in ARMS:
        assert state(whole / compare.slug(arm), 12) == state(whole / "trunk", 12)
    ends = {state(whole / compare.slug(arm), 36) for arm in ARMS}
    assert len(ends) == len(ARMS)


def test_arms_say_what_they_are(whole: Path) -> None:
    trunk = json.loads((whole / "trunk/config.json").read_text())
    assert (trunk["start_step"], trunk["stop_step"], trunk["arm"], trunk["hooks"]) == (0, 12, None, [])
    for arm in ARMS:
        hooks = [] if arm == "none" else arm.split(" + ")
        own = json.loads((whole / compare.slug(arm) / "config.json").read_text())
        expected = {"start_step": 12, "stop_step": None, "arm": arm, "hooks": hooks if arm != "none" else ["none"]}
        assert {name: own[name] for name in expected} == expected
        assert own["settings"] == {**trunk["settings"], "hook": own["hooks"]}
        assert own["settings"]["seeds"] == [3, 4]


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_is_what_its_hooks_do_in_a_run_from_the_beginning(
    lab: Any, tmp_path: Path, whole: Path, arm: str
) -> None:
    """Forked at a switch of tasks: `@task` fires there, what is applied there sees the new task's data (DASH's pass), and
    what acts at the end of a task (EWC) has seen the one before."""
    changes = {"tasks": 3, "seeds": (3, 4), "width": 8, "measure_every": 7, "eval_every": 1.0}
    run = lab.run(tmp_path / "run", hook=tuple(h for h in ARMS[arm] if "every" not in h), **changes)
    if "every" in arm:  # it would have acted before the fork too
        return
    assert state(run, 36) == state(whole / compare.slug(arm), 36)
    for name in ("metrics", "tasks"):
        assert lab.log(whole / "trunk", name) + lab.log(whole / compare.slug(arm), name) == lab.log(run, name)
