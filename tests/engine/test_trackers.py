"""Trackers: they get every logged row, and their problems do not end a run."""

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.record_writer import RecordWriter

from supple.engine import trackers
from supple.experiments import resume, train
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.sweep import Sweep
from supple.registry.errors import DiskError, UsageError
from tests.processes import stop_at
from tests.records import results

SETTINGS = {"tasks": "semantic,reversal", "updates_per_task": 60, "checkpoint_every": 15, "measure_every": 10}
HOOKS = ["snp@task"]
Logged = list[Any]


class Recorder:
    """A tracker that remembers, as the libraries' adapters are."""

    made: list["Recorder"] = []  # noqa: RUF012

    def __init__(self, run: trackers.TrackedRun) -> None:
        self.run, self.rows, self.ended = run, Logged(), ""
        self.made.append(self)

    def log(self, step: int, values: Mapping[str, float | str]) -> None:
        self.rows.append((step, dict(values)))

    def close(self, failed: bool) -> None:
        self.ended = "failed" if failed else "finished"


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    monkeypatch.setattr(trackers, "TRACKERS", {"wandb": Recorder, "mlflow": Recorder})
    monkeypatch.setattr("supple.engine.settings.find_spec", lambda name: True)
    monkeypatch.setattr(Recorder, "made", made := [])
    return made


def board(run: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows: steps and numbers by name."""
    events = EventAccumulator(str(run / trackers.BOARD)).Reload()
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}


def silent(line: str) -> None:
    raise AssertionError(line)


# -- with a library -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wandb_gets_every_row_of_a_run_into_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    rows, log = Logged(), wandb.Run.log
    monkeypatch.setattr(wandb.Run, "log", lambda own, row: (rows.append(row), log(own, row)))
    train("linear", {**SETTINGS, "log_to": ["wandb"]}, HOOKS, out=tmp_path / "run", warn=silent)
    assert {row["step"] for row in rows if "loss" in row} >= {*range(10, 121, 10)}
    (file,) = (tmp_path / "run" / trackers.FOLDER).glob("wandb/offline-run-*/*.wandb")
    assert file.stat().st_size > 1000


# -- with any ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_failed_run_is_marked_and_its_resumed_one_is_the_same_in_a_tracker_in_tensorboard_and_on_the_disk(
    tmp_path: Path, recorders: list[Recorder]
) -> None:
    run, settings = tmp_path / "run", {**SETTINGS, "measure_every": 1}
    train("linear", settings, HOOKS, out=tmp_path / "whole")
    with pytest.raises(ZeroDivisionError):
        train("linear", {**settings, "log_to": ["wandb"]}, HOOKS, out=run, progress=stop_at(50, ZeroDivisionError))
    assert max(step for step, _ in board(run)["loss"]) > 45  # the step of the last checkpoint
    resume(run, warn=silent)
    assert results(run) == results(tmp_path / "whole")
    assert board(run) == board(tmp_path / "whole")
    failed, tracker = recorders
    assert (failed.ended, tracker.ended) == ("failed", "finished")
    for name, curve in board(run).items():
        rows = [(step, pytest.approx(row[name], rel=1e-6)) for step, row in tracker.rows if name in row]
        assert rows == [point for point in curve if point[0] > 45]
    events = [str(row["event"]).split(",")[0] for _, row in failed.rows + tracker.rows if "event" in row]
    assert events == ["task: task 0", "task: task 1", "intervention: hook snp@task"]
    assert (tracker.run.id, tracker.run.name, tracker.run.group) == (failed.run.id, "run", None)
    assert tracker.run.config["resolved"]["hooks"] == HOOKS


@pytest.mark.slow
def test_a_full_disk_under_tensorboard_is_the_runs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RecordWriter, "write", full)
    with pytest.raises(DiskError, match=r"No space left on device; `supple resume .*run` continues"):
        train("linear", SETTINGS, out=tmp_path / "run", warn=silent)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_problem_of_a_tracker_is_reported_once_and_the_run_continues(
    tmp_path: Path, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Recorder, step: int, values: Any) -> None:
        raise ConnectionError("nobody\nanswers")

    monkeypatch.setattr(Recorder, "log", refuse)
    said: list[str] = []
    train("linear", {**SETTINGS, "log_to": ["wandb"]}, out=tmp_path / "run", warn=said.append)
    assert said == ["--log-to wandb: ConnectionError: nobody; the run continues without it"]


@pytest.mark.slow
def test_runs_of_a_sweep_are_grouped_by_study_and_called_after_arm_and_seed(
    tmp_path: Path, recorders: list[Recorder]
) -> None:
    settings = {**SETTINGS, "log_to": ["wandb"]}
    study = Study("lin", "linear", settings=settings, arms=("none", "snp"), seeds=(3,), fork_at_task=1)
    Sweep([study]).begin(tmp_path / "out").work_off(lambda job, held: job.train(held, lambda *_: None, silent))
    names = ["trunk seed-3", "none seed-3", "snp seed-3"]
    assert [(each.run.group, each.run.name) for each in recorders] == [("lin", name) for name in names]
    assert {each.run.folder for each in recorders} == {tmp_path / "out/trackers"}
    assert len({each.run.id for each in recorders}) == 3


def test_a_tracker_that_is_not_installed_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supple.engine.settings.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"log-to mlflow: .*pip install 'supple\[mlflow\]'"):
        train("linear", {**SETTINGS, "log_to": ["mlflow"]}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
