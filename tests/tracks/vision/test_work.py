"""Runs of classifiers: what they log and when, which states they keep, and training that diverges."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from supple.engine.kinds import find_kind
from supple.engine.runs import build, open_run, prepare
from supple.engine.spec import RunSpec
from supple.metrics import measure_members
from supple.registry.errors import Diverged, RunError
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.update import Update
from tests.tracks.logs import refusal, state, write_idx

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hook": ("chain",)}, "'model' has neither a policy nor values"),
        ({"seeds": (0, 1), "keep_best": True, "eval_every": 5}, "--keep-best: each seed of a stack is best at another"),
    ],
)
def test_what_a_classifier_or_a_stack_has_not_is_refused(
    lab: Any, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    assert words in refusal(lab.run, tmp_path / "run", **changes)


def test_a_seed_that_never_meets_a_condition_is_told(lab: Any, data: DataSet, tmp_path: Path) -> None:
    norms = [measured["weight_norm"] for measured in measure_members(lab.model(data).learner)]
    hook, told = f"fire@when:weight_norm>{sum(norms) / 2!r}", list[str]()
    settings = lab.settings(seeds=(0, 1), hook=(hook,), learning_rate=1e-9, measure_every=6)
    prepare(RunSpec("vision", settings), tmp_path / "run", told.append).train(lambda _: None)
    assert f"{hook} never fired for seed {norms.index(min(norms))}, because its condition was never met" in told[0]
    (event,) = [event for event in lab.log(tmp_path / "run", "events") if event["event"] == "intervention"]
    assert event["seeds"] == [norms.index(max(norms))]


@pytest.mark.parametrize("text", ["dash(batches=1)@0", "redo@0"])
def test_at_step_0_there_are_the_first_tasks_data(lab: Any, tmp_path: Path, text: str) -> None:
    run = lab.run(tmp_path / "run", hook=(text,))
    (event,) = [event for event in lab.log(run, "events") if event["event"] == "intervention"]
    assert event["step"] == 0
    assert "srank" in event["before"]


# -- what is logged ------------------------------------------------------------------------------------------------


def test_the_rate_rises_at_first_and_online_accuracy_and_loss_are_those_before_each_update(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    rates: list[float] = []
    update = Update.__call__

    def listening(self: Update, images: Any, labels: Any, rate: float) -> tuple[torch.Tensor, torch.Tensor]:
        rates.append(rate)
        seen.append(update(self, images, labels, rate))
        return seen[-1]

    monkeypatch.setattr(Update, "__call__", listening)
    run = lab.run(tmp_path / "run", seeds=(0, 1), warmup=0.25)
    assert rates == pytest.approx([1 / 3, 2 / 3, *[1] * 10] * 2)
    losses, hits = (torch.stack(own).unflatten(0, (2, 12)).double() for own in zip(*seen, strict=True))
    rows = lab.log(run, "tasks")
    assert [row["online_loss"] for row in rows] == pytest.approx(losses.mean(1).flatten().tolist())
    assert [row["online_accuracy"] for row in rows] == pytest.approx((hits.mean(1) / 8).flatten().tolist())
    assert {row["updates"] for row in rows} == {12}


def test_measurements_tests_and_tasks_come_when_they_are_asked_for(lab: Any, tmp_path: Path) -> None:
    run = lab.run(tmp_path / "run", eval_epochs=0.5, measure_every=5)
    rows = lab.log(run, "metrics")
    assert [row["step"] for row in rows if "test_accuracy" in row] == [3, 6, 9, 12, 15, 18, 21]
    assert [row["step"] for row in rows if "model/dfi" in row] == [5, 10, 12, 15, 20, 24]
    assert [(row["step"], row["task"]) for row in lab.log(run, "tasks")] == [(12, 0), (24, 1)]
    assert [event["step"] for event in lab.log(run, "events")] == [0, 12]


@pytest.mark.parametrize(
    ("changes", "steps"),
    [  # tasks of 2 epochs of 6 updates; their ends are in tasks.jsonl
        ({}, []),
        ({"eval_every": 5}, [5, 10, 15, 20]),
        ({"eval_every": 5, "eval_epochs": 1}, [5, 6, 10, 15, 18, 20]),
        *(({"images": n, "batch_size": 1, "epochs": 2.1, "tasks": 1, "eval_epochs": 1}, [n, 2 * n]) for n in (49, 103)),
    ],
)
def test_tests_within_tasks_come_by_updates_of_the_run_and_by_epochs_of_the_task(
    lab: Any, changes: dict[str, Any], steps: list[int]
) -> None:
    work = build(find_kind("vision"), lab.settings(**changes))
    assert [s for t in work.tasks for s in range(t.start + 1, t.end + 1) if work.evaluation_due(t, s - 1, s)] == steps


def test_split_streams_are_tested_on_every_task_so_far(lab: Any, tmp_path: Path) -> None:
    run = lab.run(tmp_path / "run", stream="split", classes_per_task=3, tasks=3, replay=20, seeds=(0, 1))
    for row in lab.log(run, "tasks"):
        assert len(row["accuracies"]) == row["task"] + 1
        assert row["accuracies"][-1] == row["test_accuracy"]


def test_something_is_learned_and_the_process_s_arithmetic_stays_as_it_was(lab: Any, tmp_path: Path) -> None:
    run = lab.run(tmp_path / "run", stream="chunks", shares=(1.0,), tasks=1, epochs=10)
    (row,) = lab.log(run, "tasks")
    assert row["test_accuracy"] > 0.9
    assert float(torch.tensor(torch.finfo(torch.float32).tiny) / 2) != 0.0


def test_the_best_state_and_those_that_were_asked_for_are_kept_and_change_nothing(lab: Any, tmp_path: Path) -> None:
    small = {"eval_every": 4, "checkpoint_every": 5, "width": 8}
    plain = lab.run(tmp_path / "plain", **small)
    run = lab.run(tmp_path / "run", keep_best=True, keep_at=(6, 13), **small)
    tests = {row["step"]: row["test_accuracy"] for row in lab.log(run, "metrics") if "test_accuracy" in row}
    assert tests.keys() == {4, 8, 12, 16, 20, 24}
    for row in lab.log(run, "tasks"):
        assert row["test_accuracy"] == tests[row["step"]], "the end of a task is tested before the next begins"
    [best] = (run / "best").iterdir()
    assert tests[int(best.name)] == max(tests.values())
    assert sorted(int(folder.name) for folder in (run / "kept").iterdir()) == [6, 13]
    assert lab.log(run, "tasks") == lab.log(plain, "tasks")
    assert state(run, 24) == state(plain, 24)


# -- learning rate and optimizer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fresh", [True, False])
def test_fresh_optimizer_resets_adam_at_each_task(lab: Any, tmp_path: Path, fresh: bool) -> None:
    run = lab.run(tmp_path / "run", fresh_optimizer=fresh)
    tensors = load_file(run / f"checkpoints/{24:012d}/state.safetensors")
    steps = {float(value.max()) for name, value in tensors.items() if "optimizer" in name and name.endswith("/step")}
    assert steps == {12.0 if fresh else 24.0}


# -- training that diverges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"measure_every": 1},
        {"hook": ("redo@every:1",)},
        {"network": "resnet18", "width": 4, "seeds": (5,), "measure_every": 1},
    ],
    ids=str,
)
def test_a_loss_that_is_no_number_ends_the_run_in_one_line(lab: Any, tmp_path: Path, changes: dict[str, Any]) -> None:
    settings = lab.settings(**{"seeds": (5, 6), "learning_rate": 1e35, "checkpoint_every": 3, **changes})
    prepare(RunSpec("vision", settings), tmp_path / "run").close()
    with pytest.raises(
        Diverged,
        match=r"\(vision, seed 5(, 6)?\): training diverged by step \d+: the loss is not finite in task 0; ",
    ) as error:
        lab.resume(tmp_path / "run")
    assert "\n" not in str(error.value)
    for checkpoint in (tmp_path / "run/checkpoints").glob("*"):
        assert "nan" not in (checkpoint / "state.json").read_text().lower()


def test_a_run_is_not_resumed_on_changed_data(lab: Any, data: DataSet, folder: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(folder, tmp_path / "data")
    settings = lab.settings(data=moved, stream="chunks", shares=(0.5, 1.0))
    prepare(RunSpec("vision", settings), tmp_path / "run").close()
    write_idx(moved, "train", data.train_images[:100, 0].numpy(), data.train_labels[:100].byte().numpy())
    with pytest.raises(RunError, match=r"was started with other data: .* 120 .*; the data here are .* 100 "):
        open_run(tmp_path / "run", print).train(lambda _: None)
