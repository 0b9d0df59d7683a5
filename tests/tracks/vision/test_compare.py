"""Comparisons of classifiers: arms part from one trunk, and each goes on as a run of its own would."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from supple.experiments.errors import UsageError
from supple.scripts.main import dispatch

OPTIONS = shlex.split(
    "--tasks 2 --images 48 --epochs 2 --batch-size 8 --measure-every 12 --compile off --seeds 3 5 "
    "--activation rand_smooth_leaky --jobs 1"
)
ARMS = ("none", "fire@task", "fire", "dash", "l2_init")


@pytest.fixture(scope="module")
def whole(lab: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stack's trunk and arms."""
    out = tmp_path_factory.mktemp("compare") / "whole"
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    dispatch(["compare", *lab.command("permuted-mnist", *OPTIONS, *arms, "--out", out)])
    return out / "seeds-3-5"


@pytest.mark.parametrize(("arm", "hooks"), [("none", ()), ("fire_task", ("fire@task",))])
def test_an_arm_is_what_one_run_with_its_hooks_would_have_been(
    lab: Any, whole: Path, tmp_path: Path, arm: str, hooks: tuple[str, ...]
) -> None:
    plain = lab.run(tmp_path / "plain", seeds=(3, 5), activation="rand_smooth_leaky", hook=hooks)
    for log in ("metrics", "tasks", "events"):
        assert lab.log(whole / "trunk", log) + lab.log(whole / arm, log) == lab.log(plain, log)


def test_an_arm_without_a_schedule_acts_at_the_fork_on_the_new_task(lab: Any, whole: Path) -> None:
    assert lab.log(whole / "fire", "tasks") == lab.log(whole / "fire_task", "tasks")
    [dash] = [event for event in lab.log(whole / "dash", "events") if event["event"] == "intervention"]
    [task] = [event for event in lab.log(whole / "dash", "events") if event["event"] == "task"]
    assert dash["step"] == task["step"] == 12
    assert task["task"] == 1
    assert lab.log(whole / "dash", "tasks") != lab.log(whole / "none", "tasks")
    assert lab.log(whole / "l2_init", "tasks") != lab.log(whole / "none", "tasks")


def test_the_report_has_every_arm(whole: Path) -> None:
    scores = json.loads((whole.parent / "report/scores.json").read_text())
    assert set(ARMS) <= set(json.dumps(scores).replace('"', " ").replace("\\", " ").split())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--arm", "fire(stepz=3)"], "stepz"),
        (["--arm", "fire@when:srank<3"], "one seed meets a condition"),
        (["--hook", "fire@0.5"], "every --arm names its hooks"),
        (["--fork-at", "1.5"], "--fork-at must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    lab: Any, tmp_path: Path, words: list[str], complaint: str
) -> None:
    command = ["compare", *lab.command("permuted-mnist", *OPTIONS, *words, "--out", tmp_path / "x")]
    with pytest.raises(UsageError, match=complaint) as refusal:
        dispatch(command)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "x").exists()
