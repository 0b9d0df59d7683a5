"""Runs of classifiers: what they log, every intervention as a hook, and training that diverges."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.metrics import measure_members
from supple.networks.optimizers import step
from supple.registry.errors import Diverged, RunError
from supple.tracks.vision import update
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.update import Update
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("hook", "words"),
    [("chain", "'model' has neither a policy nor values"), ("replay@task", "'model' has no replay memory")],
)
def test_interventions_that_need_a_policy_or_values_are_refused(
    lab: Any, tmp_path: Path, hook: str, words: str
) -> None:
    assert words in refusal(lab.run, tmp_path / "run", hook=(hook,))


def test_a_seed_that_never_meets_a_condition_is_told(lab: Any, data: DataSet, tmp_path: Path) -> None:
    norms = [measured["weight_norm"] for measured in measure_members(lab.model(data).learner)]
    hook, told = f"fire@when:weight_norm>{sum(norms) / 2!r}", list[str]()
    settings = lab.settings(seeds=(0, 1), hook=(hook,), learning_rate=1e-9, measure_every=6)
    prepare(RunSpec("vision", settings), tmp_path / "run", told.append).train(lambda _: None)
    assert f"{hook} never fired for seed {norms.index(min(norms))}, because its condition was never met" in told[0]
    assert [e["seeds"] for e in lab.log(tmp_path / "run", "events") if e["event"] == "intervention"] == [
        [norms.index(max(norms))]
    ]


@pytest.mark.parametrize("text", ["dash(batches=1)@0", "redo@0", "snp@0", "fire@0.0"])
def test_at_step_0_there_are_the_first_tasks_data(lab: Any, tmp_path: Path, text: str) -> None:
    run = lab.run(tmp_path / "run", hook=(text,))
    (event,) = [event for event in lab.log(run, "events") if event["event"] == "intervention"]
    assert event["step"] == 0
    assert "srank" in event["before"]


# -- what is logged ------------------------------------------------------------------------------------------------


def test_online_accuracy_and_loss_are_those_before_each_update(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[tuple[torch.Tensor, torch.Tensor]] = []
    update = Update.__call__

    def listening(self: Update, *batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        results.append(update(self, *batch))
        return results[-1]

    monkeypatch.setattr(Update, "__call__", listening)
    run = lab.run(tmp_path / "run", seeds=(0, 1))
    for task in (0, 1):
        own = results[12 * task : 12 * (task + 1)]
        for member, row in enumerate(row for row in lab.log(run, "tasks") if row["task"] == task):
            assert row["updates"] == 12
            assert row["online_loss"] == pytest.approx(sum(float(loss[member]) for loss, _ in own) / 12)
            assert row["online_accuracy"] == pytest.approx(sum(int(hits[member]) for _, hits in own) / (12 * 8))


def test_tests_measurements_and_tasks_come_when_they_are_asked_for(lab: Any, tmp_path: Path) -> None:
    run = lab.run(tmp_path / "run", eval_epochs=0.5, measure_every=5)
    rows = lab.log(run, "metrics")
    assert [row["step"] for row in rows if "test_accuracy" in row] == [3, 6, 9, 12, 15, 18, 21]
    assert [row["step"] for row in rows if "model/dfi" in row] == [5, 10, 12, 15, 20, 24]
    assert [(row["step"], row["task"]) for row in lab.log(run, "tasks")] == [(12, 0), (24, 1)]
    assert [event["step"] for event in lab.log(run, "events")] == [0, 12]


@pytest.mark.parametrize("images", [49, 98, 103])
def test_each_epoch_ends_with_a_test_whatever_the_number_of_images(lab: Any, tmp_path: Path, images: int) -> None:
    run = lab.run(tmp_path / "run", images=images, batch_size=1, epochs=2.1, tasks=1, eval_epochs=1, width=2)
    assert [row["step"] for row in lab.log(run, "metrics") if "test_accuracy" in row] == [images, 2 * images]


def test_split_streams_are_tested_on_every_task_so_far(lab: Any, tmp_path: Path) -> None:
    run = lab.run(tmp_path / "run", stream="split", classes_per_task=3, tasks=3, replay=20, seeds=(0, 1))
    for row in lab.log(run, "tasks"):
        assert len(row["accuracies"]) == row["task"] + 1
        assert row["accuracies"][-1] == row["test_accuracy"]


def test_something_is_learned(lab: Any, tmp_path: Path) -> None:
    run = lab.run(tmp_path / "run", stream="chunks", shares=(1.0,), tasks=1, epochs=20, images=None)
    (row,) = lab.log(run, "tasks")
    assert row["test_accuracy"] > 0.9


# -- learning rate and optimizer -----------------------------------------------------------------------------------


def rates(lab: Any, out: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> list[float]:
    seen: list[float] = []

    def watched(optimizer: torch.optim.Optimizer) -> None:
        seen.extend(group["lr"] for group in optimizer.param_groups)
        step(optimizer)

    monkeypatch.setattr(update, "step", watched)
    lab.run(out, **changes)
    return seen


@pytest.mark.parametrize("network", [{}, {"network": "resnet18", "width": 4}])
def test_the_learning_rate_rises_over_the_first_tenth_of_each_task(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: dict[str, Any]
) -> None:
    seen = rates(lab, tmp_path / "run", monkeypatch, warmup=0.1, learning_rate=0.01, images=40, epochs=4, **network)
    assert len(seen) == 40
    for own in (seen[:20], seen[20:]):
        assert own == pytest.approx([0.005, *[0.01] * 19])


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("network", [{}, {"network": "resnet18", "width": 4}])
def test_fresh_optimizer_resets_adam_at_each_task(
    lab: Any, tmp_path: Path, fresh: bool, network: dict[str, Any]
) -> None:
    run = lab.run(tmp_path / "run", fresh_optimizer=fresh, **network)
    newest = max((run / "checkpoints").iterdir())
    body = json.loads((newest / "state.json").read_text().splitlines()[1])
    tensors = load_file(newest / "state.safetensors")
    steps = {float(value.max()) for name, value in tensors.items() if "optimizer" in name and name.endswith("/step")}
    assert body["step"] == 24
    assert steps == {12.0 if fresh else 24.0}


# -- training that diverges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"measure_every": 1},
        {"checkpoint_every": 1},
        {"eval_epochs": 0.1},
        {"hook": ("redo@every:1",)},
        {"hook": ("fire@every:2",)},
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


def test_a_run_is_not_resumed_on_changed_data(lab: Any, folder: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(folder, tmp_path / "data")
    settings = lab.settings(data=moved, stream="chunks", shares=(0.5, 1.0), images=None)
    prepare(RunSpec("vision", settings), tmp_path / "run").close()
    for file, size in (("train-images-idx3-ubyte", 256), ("train-labels-idx1-ubyte", 1)):
        content = (moved / file).read_bytes()
        start = 16 if size > 1 else 8
        short = content[:4] + (100).to_bytes(4) + content[8:start] + content[start : start + 100 * size]
        (moved / file).write_bytes(short)
    with pytest.raises(RunError, match=r"was started with other data: .* 120 .*; the data here are .* 100 "):
        open_run(tmp_path / "run", print).train(lambda _: None)
