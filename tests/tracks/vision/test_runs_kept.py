"""Classifiers: seeds by either name, tests within tasks by updates or epochs, and states that are kept."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from supple.scripts.main import dispatch
from tests.tracks.logs import refusal

SMALL = shlex.split(
    "--tasks 2 --images 48 --epochs 2 --batch-size 8 --width 8 --measure-every 12 --checkpoint-every 5 --compile off"
)


def train_run(lab: Any, out: Path, *more: str) -> Path:
    dispatch(lab.command("permuted-mnist", *SMALL, *more, "--out", out))
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ("--eval-epochs 1", [6, 12, 18]),  # tasks of 2 epochs of 6 updates; their ends are in tasks.jsonl
        ("--eval-every 5", [5, 10, 12, 15, 20]),
        ("--eval-every 5 --eval-epochs 1", [5, 6, 10, 12, 15, 18, 20]),
        ("--eval-every 0 --eval-epochs 0", []),
    ],
)
def test_tests_within_tasks_come_by_updates_of_the_run_and_by_epochs_of_the_task(
    lab: Any, tmp_path: Path, options: str, steps: list[int]
) -> None:
    run = train_run(lab, tmp_path / "run", *options.split())
    assert [line["step"] for line in lab.log(run, "metrics") if "test_accuracy" in line] == steps
    assert [line["step"] for line in lab.log(run, "tasks")] == [12, 24]


def kept(run: Path, kind: str) -> list[int]:
    return sorted(int(folder.name) for folder in (run / kind).glob("*"))


@pytest.mark.slow
def test_the_best_state_and_those_that_were_asked_for_are_kept_and_change_nothing(lab: Any, tmp_path: Path) -> None:
    plain = train_run(lab, tmp_path / "plain", "--eval-every", "4")
    run = train_run(lab, tmp_path / "run", "--eval-every", "4", "--keep-best", "True", "--keep-at", "6", "13")
    tests = {line["step"]: line["test_accuracy"] for line in lab.log(run, "metrics") if "test_accuracy" in line}
    ends = {line["step"]: line["test_accuracy"] for line in lab.log(run, "tasks")}
    assert tests.keys() == {4, 8, 12, 16, 20, 24}
    assert tests[24] == ends[24]
    first = next(line for line in lab.log(run, "metrics") if line["step"] == 12 and "test_accuracy" in line)
    assert first["test_accuracy"] == ends[12], "the end of a task is tested before the next begins"
    best = max([*tests.values(), *ends.values()])
    [step] = kept(run, "best")
    assert (tests | ends)[step] == best
    assert kept(run, "kept") == [6, 13]
    assert lab.log(run, "tasks") == lab.log(plain, "tasks")
    states = [(each / f"checkpoints/{24:012d}/state.safetensors").read_bytes() for each in (run, plain)]
    assert states[0] == states[1]


def test_a_stack_of_seeds_keeps_no_best_state(lab: Any, tmp_path: Path) -> None:
    refused = refusal(train_run, lab, tmp_path / "run", "--seeds", "0", "1", "--keep-best", "True")
    assert "--keep-best: each seed of a stack is best at another update" in refused
    assert not (tmp_path / "run").exists()
