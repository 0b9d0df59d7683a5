"""Trackers beside TensorBoard: they get every logged row once, and never end or slow down a run."""

import json
import os
import signal
import sqlite3
import struct
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from supple.engine import trackers
from supple.engine.storage import tensorboard
from supple.engine.storage.tensorboard import Record
from supple.experiments import resume, train
from supple.experiments.queue.queue import Queue
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.sweep import Sweep
from supple.registry.errors import UsageError
from tests.processes import LONG

SETTINGS = {"tasks": "semantic,reversal", "updates_per_task": 60, "checkpoint_every": 15, "measure_every": 10}
HOOKS = ["snp@task"]
Logged = list[tuple[int, dict[str, Any]]]


class Recorder:
    """A tracker that remembers, as the libraries' adapters are."""

    made: list["Recorder"] = []  # noqa: RUF012

    def __init__(self, place: trackers.TrackedRun) -> None:
        self.place, self.sent, self.rows, self.ended = place, 0, list[Record](), ""
        self.made.append(self)

    def send(self, rows: Sequence[Record]) -> None:
        self.rows += rows

    def close(self, failed: bool) -> None:
        self.ended = "failed" if failed else "finished"


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    monkeypatch.setattr(trackers, "TRACKERS", {"wandb": Recorder, "mlflow": Recorder})
    monkeypatch.setattr("supple.engine.settings.find_spec", lambda name: True)
    monkeypatch.setattr(Recorder, "made", made := [])
    return made


def logged(run: Path) -> Logged:
    """What TensorBoard is shown."""
    file = run / tensorboard.FILE
    with file.open("rb") as stream:
        return [(row.step, dict(row.values)) for row in tensorboard.read_records(stream, file.stat().st_size)]


def results(run: Path) -> dict[str, Any]:
    """The files of a run, without times and settings."""
    found: dict[str, Any] = {}
    for file in sorted(run.rglob("*")):
        if file.suffix == ".safetensors":
            found[str(file.relative_to(run))] = file.read_bytes()
        elif file.suffix == ".jsonl":
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            found[file.name] = [{k: v for k, v in row.items() if k not in ("time", "seconds")} for row in rows]
    return {**found, "tensorboard": logged(run)}


def silent(line: str) -> None:
    raise AssertionError(line)


# -- with a library -------------------------------------------------------------------------------------------------


def wandb_has(path: Path) -> Logged:
    """Read the record of a run that is offline: blocks of 32 KiB in LevelDB's format of logs, behind a head."""
    from wandb.proto.wandb_internal_pb2 import Record

    [file] = path.glob("wandb/offline-run-*/*.wandb")
    data, place, rows, part = file.read_bytes(), 7, [], b""
    while place < len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        part += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or a last part
            record, part = Record.FromString(part), b""
            items = {".".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
            if items:
                values = {name: json.loads(value) for name, value in items.items() if name[0] != "_"}
                rows.append((values.pop("step"), values))
    return rows


def mlflow_has(path: Path) -> Logged:
    base = sqlite3.connect(path / "mlflow.db")
    assert base.execute("select status from runs").fetchall() == [("FINISHED",)]
    rows: dict[int, dict[str, Any]] = {}
    for step, key, value in base.execute("select step, key, value from metrics order by step"):
        rows.setdefault(step, {})[key] = value
    for (text,) in base.execute("select value from tags where key like 'event %'"):
        step, _, event = text.removeprefix("step ").partition(": ")
        rows.setdefault(int(step), {}).setdefault("event", []).append(event)
    return sorted(rows.items())


def trackio_has(path: Path) -> Logged:
    base = sqlite3.connect(path.parents[1] / "trackio/supple.db")
    return [(step, json.loads(text)) for step, text in base.execute("select step, metrics from metrics order by id")]


def by_step(rows: Logged) -> Logged:
    """Rows as MLflow has them: a number of one step once."""
    found: dict[int, dict[str, Any]] = {}
    for step, values in rows:
        for name, value in values.items():
            if name == "event":
                found.setdefault(step, {}).setdefault(name, []).append(value)
            else:
                found.setdefault(step, {})[name] = value
    return sorted(found.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "has", "shown"),
    [("wandb", wandb_has, list), ("mlflow", mlflow_has, by_step), ("trackio", trackio_has, list)],
)
def test_a_library_has_every_row_once_after_the_run_was_killed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    has: Callable[[Path], Logged],
    shown: Callable[[Logged], Logged],
) -> None:
    if not find_spec(name):
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    run = tmp_path / "run"
    handed = threading.Event()

    def die(step: int) -> None:
        if step >= 50:  # and rows of the checkpoints before are on their way
            handed.wait(LONG)
            os.kill(os.getpid(), signal.SIGKILL)

    if not (child := os.fork()):
        adapter: Any = trackers.TRACKERS[name]
        send = adapter.send
        monkeypatch.setattr(adapter, "send", lambda *rows: (send(*rows), handed.set()))
        train("linear", {**SETTINGS, "log_to": [name]}, HOOKS, out=run, progress=die)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    begun = json.loads((run / trackers.FILE).read_text())["id"]
    resume(run, warn=silent)
    assert has(run / trackers.FOLDER) == shown(logged(run))
    assert json.loads((run / trackers.FILE).read_text())["id"] == begun


# -- with any ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_tracker_gets_the_rows_of_tensorboard_and_does_not_change_the_run(
    tmp_path: Path, recorders: list[Recorder]
) -> None:
    train("linear", SETTINGS, HOOKS, out=tmp_path / "alone")
    train("linear", {**SETTINGS, "log_to": ["wandb"]}, HOOKS, out=tmp_path / "run", warn=silent)
    assert results(tmp_path / "run") == results(tmp_path / "alone")
    [tracker] = recorders
    assert [(row.step, dict(row.values)) for row in tracker.rows] == logged(tmp_path / "run")
    assert [row.number for row in tracker.rows] == list(range(len(tracker.rows)))
    events = [str(row.values["event"]) for row in tracker.rows if "event" in row.values]
    assert [event.split(",")[0] for event in events] == [
        "task: task 0", "task: task 1", "intervention: hook snp@task",
    ]  # fmt: skip
    assert tracker.ended == "finished"
    assert (tracker.place.name, tracker.place.group) == ("run", None)
    assert tracker.place.config["settings"]["updates_per_task"] == 60
    assert tracker.place.config["hooks"] == HOOKS


@pytest.mark.slow
def test_a_failed_run_is_marked_and_resumes_as_the_same_run_of_the_tracker(
    tmp_path: Path, recorders: list[Recorder]
) -> None:
    def stop(step: int) -> None:
        if step >= 50:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train("linear", {**SETTINGS, "log_to": ["wandb"]}, out=tmp_path / "run", progress=stop)
    resume(tmp_path / "run", warn=silent)
    assert [each.ended for each in recorders] == ["failed", "finished"]
    assert len({each.place.id for each in recorders}) == 1
    assert 0 < len(recorders[0].rows) < len(recorders[1].rows)
    assert max(row.step for row in recorders[0].rows) <= 45  # as far as the last checkpoint


@pytest.mark.slow
def test_a_problem_of_a_tracker_is_reported_once_and_the_run_continues(
    tmp_path: Path, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Recorder, rows: Sequence[Record]) -> None:
        raise ConnectionError("nobody\nanswers")

    monkeypatch.setattr(Recorder, "send", refuse)
    said: list[str] = []
    train("linear", {**SETTINGS, "log_to": ["wandb"]}, out=tmp_path / "run", warn=said.append)
    assert said == ["--log-to wandb: ConnectionError: nobody answers; the run continues without it"]


@pytest.mark.slow
def test_a_tracker_that_is_slow_is_not_waited_for(
    tmp_path: Path, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    monkeypatch.setattr(Recorder, "send", lambda self, rows: free.wait(LONG))
    monkeypatch.setattr(trackers, "PATIENCE", 0.1)
    said: list[str] = []
    train("linear", {**SETTINGS, "log_to": ["wandb"]}, out=tmp_path / "run", warn=said.append)
    free.set()  # had it been waited for, it would not still be sending
    [line] = said
    assert "still sending" in line


@pytest.mark.slow
def test_runs_of_a_sweep_are_grouped_by_study_and_called_after_arm_and_seed(
    tmp_path: Path, recorders: list[Recorder]
) -> None:
    settings = {**SETTINGS, "log_to": ["wandb", "mlflow"]}
    study = Study("lin", "linear", settings=settings, arms=("none", "snp"), seeds=(3,), fork_at_task=1)
    jobs = Sweep([study]).begin(tmp_path / "out")
    Queue(jobs).work_off(lambda job, held: job.train(held, lambda step, end: None, silent))
    assert not any(job.failed for job in jobs)
    assert [(each.place.group, each.place.name) for each in recorders] == [
        ("lin", name) for name in ("trunk seed-3", "none seed-3", "snp seed-3") for _ in range(2)
    ]
    assert {each.place.folder for each in recorders} == {tmp_path / "out/trackers"}
    assert len({each.place.id for each in recorders}) == 3


def test_a_tracker_that_is_not_installed_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supple.engine.settings.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"log_to mlflow: .*pip install 'supple\[mlflow\]'"):
        train("linear", {**SETTINGS, "log_to": ["mlflow"]}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
