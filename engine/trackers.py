"""Trackers beside TensorBoard: Weights & Biases, MLflow and trackio show the numbers and events of a run in progress.

The records of TensorBoard's file are sent. One thread per tracker reads them and sends those up to the last checkpoint.
A resumed run truncates its logs to that checkpoint, so no record that was sent is ever logged again. Rows are numbered
from 0, and a tracker says how many it has already (`sent`). After a kill, a run therefore continues as the same run of
the tracker, without missing or repeated rows.

Nothing is sent over the network unless the user has configured the library to do so, by its own environment variables.
Trackers never end or slow down a run: a problem is reported once, and the run continues without that tracker.
"""

import logging
import os
import queue
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from ..registry.errors import describe_error
from .loop import Warn
from .storage import files, signed_json, tensorboard
from .storage.run_directory import RunDirectory

FILE = "tracked.json"  # in a run directory: the id of the run for trackers
FOLDER = "trackers"  # in the folder of a run, a comparison or a sweep: the local files of trackers
PROJECT = "supple"
BATCH = 64  # rows sent at a time
MOST = 1000  # numbers that MLflow accepts at a time
PATIENCE = 60.0  # seconds that a run waits at its end until everything is sent


@dataclass(frozen=True)
class TrackedRun:
    """The description of a run for a tracker: id, name, group of runs, folder for local files, and config.json."""

    id: str
    name: str
    group: str | None
    folder: Path
    config: Mapping[str, Any]


class Tracker(Protocol):
    """A run in a tracker's library. Its methods may raise any exception."""

    sent: int | None  # rows that it already has; None if unknown, which is taken to mean all that were logged before

    def send(self, rows: Sequence[tensorboard.Record]) -> None:
        """Send rows. The first row sent is number `sent`, and the others follow in order."""

    def close(self, failed: bool) -> None:
        """Mark the run as finished or failed, and wait until everything is stored."""


class Wandb:
    """Weights & Biases, offline unless WANDB_MODE says otherwise. `wandb sync` uploads the contents of the folder."""

    def __init__(self, tracked: TrackedRun) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        if mode == "offline":  # wandb cannot continue an offline run, so all rows are sent again
            for old in tracked.folder.glob(f"wandb/offline-run-*-{tracked.id}"):
                shutil.rmtree(old)
        quiet = wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True)
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), id=tracked.id, name=tracked.name, group=tracked.group,
            config=dict(tracked.config), dir=str(tracked.folder), mode=mode, resume="allow", reinit="create_new",
            settings=quiet,
        )  # fmt: skip
        self.run.define_metric("step", hidden=True)
        self.run.define_metric("*", step_metric="step")
        self.sent: int | None = self.run.step

    def send(self, rows: Sequence[tensorboard.Record]) -> None:
        for row in rows:
            self.run.log({**row.values, "step": row.step}, step=row.number)

    def close(self, failed: bool) -> None:
        self.run.finish(exit_code=int(failed))


class MLflow:
    """MLflow, with a database in the folder unless MLFLOW_TRACKING_URI names a server or another database.

    The number of rows that it has is stored in a tag.
    """

    def __init__(self, tracked: TrackedRun) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        own = None if "MLFLOW_TRACKING_URI" in os.environ else f"sqlite:///{tracked.folder / 'mlflow.db'}"
        with files.lock_folder(tracked.folder):  # if several runs start at the same time, only one makes the database
            self.client = MlflowClient(tracking_uri=own)
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
            known = self.client.get_experiment_by_name(name)
            files_at = str(tracked.folder / "mlflow") if own else None
            experiment = known.experiment_id if known else self.client.create_experiment(name, files_at)
        runs = self.client.search_runs([experiment], f"tags.`supple.id` = '{tracked.id}'")
        tags = {"supple.id": tracked.id, "supple.group": tracked.group or ""}
        run = runs[0] if runs else self.client.create_run(experiment, tags=tags, run_name=tracked.name)
        self.id = run.info.run_id
        self.client.update_run(self.id, "RUNNING")
        self.sent: int | None = int(runs[0].data.tags.get("supple.rows", 0)) if runs else 0
        for name, value in {**tracked.config, **tracked.config["settings"]}.items() if not runs else ():
            self.client.log_param(self.id, name, str(value)[:6000])

    def send(self, rows: Sequence[tensorboard.Record]) -> None:
        from mlflow.entities import Metric, RunTag

        metrics, tags = [], []
        for row in rows:
            for name, value in row.values.items():
                if isinstance(value, str):
                    tags.append(RunTag(f"{name} {row.number:06}", f"step {row.step}: {value}"))
                else:
                    metrics.append(Metric(re.sub(r"[^\w\-. :/]", "_", name), value, int(1000 * row.time), row.step))
        tags.append(RunTag("supple.rows", str(rows[-1].number + 1)))
        for some in range(0, len(metrics), MOST):
            self.client.log_batch(self.id, metrics[some : some + MOST])
        self.client.log_batch(self.id, tags=tags)

    def close(self, failed: bool) -> None:
        self.client.set_terminated(self.id, "FAILED" if failed else "FINISHED")


class Trackio:
    """trackio, in its local folder (TRACKIO_DIR) unless TRACKIO_SPACE_ID or TRACKIO_SERVER_URL names another place.

    The number of rows at such a place cannot be read.
    """

    def __init__(self, tracked: TrackedRun) -> None:
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        with redirect_stdout(StringIO()):  # it would print the same for every run
            self.run = trackio.init(
                PROJECT, f"{tracked.name} {tracked.id}", tracked.group, config=dict(tracked.config), resume="allow",
                embed=False, auto_log_cpu=False, auto_log_gpu=False,
            )  # fmt: skip
        elsewhere = any(os.environ.get(name) for name in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"))
        self.sent = None if elsewhere else SQLiteStorage.get_log_count(PROJECT, self.run.name, self.run.id)

    def send(self, rows: Sequence[tensorboard.Record]) -> None:
        for row in rows:
            self.run.log(dict(row.values), step=row.step)

    def close(self, failed: bool) -> None:
        with redirect_stdout(StringIO()):
            self.run.finish()


TRACKERS: dict[str, Callable[[TrackedRun], Tracker]] = {"wandb": Wandb, "mlflow": MLflow, "trackio": Trackio}


class Sender:
    """A thread that sends the rows of a run to one tracker. `log` is TensorBoard's file."""

    def __init__(self, name: str, tracked: TrackedRun, log: Path) -> None:
        self.name, self.tracked, self.log = name, tracked, log
        self.sizes: queue.SimpleQueue[int | None] = queue.SimpleQueue()  # bytes that checkpoints cover
        self.failed = False  # whether the run failed
        self.problem = ""
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def close(self, failed: bool) -> None:
        """End the tracker, and wait for it for at most `PATIENCE` seconds."""
        self.failed = failed
        self.sizes.put(None)
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            self.problem = f"still sending {PATIENCE:g} seconds after the end of the run; the rest was not waited for"

    def _work(self) -> None:
        try:
            tracker = TRACKERS[self.name](self.tracked)
            with self.log.open("rb") as stream:
                number, skipped = 0, tracker.sent
                while (size := self.sizes.get()) is not None:
                    rows = tensorboard.read_records(stream, size, number)
                    while some := list(islice(rows, BATCH)):
                        number += len(some)
                        if skipped is not None and (new := [row for row in some if row.number >= skipped]):
                            tracker.send(new)
                    skipped = number if skipped is None else skipped
            tracker.close(self.failed)
        except Exception as error:
            self.problem = f"{describe_error(error)}; the run continues without it"


@contextmanager
def tracking(run: RunDirectory, names: Sequence[str], warn: Warn) -> Iterator[Callable[[int], None]]:
    """Send a run to these trackers while it is trained in this block.

    Yields:
        A function to call with the bytes of TensorBoard's log that a checkpoint covers: first when the run starts or
        is resumed, and then after every checkpoint.
    """
    senders: list[Sender] = []
    waiting = list(names)  # started at the first call of `covered`: there is none for a run that has already ended

    def say() -> None:
        for sender in senders:
            if sender.problem:
                warn(f"--log-to {sender.name}: {sender.problem}")
        senders[:] = [sender for sender in senders if not sender.problem]

    def covered(size: int) -> None:
        while waiting:
            senders.append(Sender(waiting.pop(0), _describe_run(run), run.path / tensorboard.FILE))
        say()
        for sender in senders:
            sender.sizes.put(size)

    def close(failed: bool) -> None:
        for sender in senders:
            sender.close(failed)
        say()

    try:
        yield covered
    except Exception:
        close(failed=True)
        raise
    close(failed=False)  # an interrupted run is neither finished nor failed, and may be resumed


def _describe_run(run: RunDirectory) -> TrackedRun:
    """Return the description of a run for trackers.

    A run of a comparison is named after its folders, from the arm to the seed. Its group is its comparison or, in a
    sweep, its study.
    """
    path = run.path.absolute()
    comparison = _find_above(path, "comparison.json")
    sweep = _find_above(comparison, "sweep.json") if comparison else None
    group = str(comparison.relative_to(sweep or comparison.parent)) if comparison else None
    name = " ".join(reversed(path.relative_to(comparison).parts)) if comparison else path.name
    folder = (sweep or comparison or path) / FOLDER
    folder.mkdir(exist_ok=True)
    if not (file := path / FILE).exists():
        signed_json.write_json(file, {"id": uuid.uuid4().hex[:12]})
    identity = signed_json.read_json(file, str(file))["id"]
    config = {key: _without_surrogates(value) for key, value in run.config.items() if key != "tasks"}
    return TrackedRun(identity, name, None if group is None else group, folder, config)


def _without_surrogates(value: Any) -> Any:
    """Return a value of config.json whose texts have no lone surrogates, which no tracker can store."""
    if isinstance(value, dict):
        return {key: _without_surrogates(item) for key, item in value.items()}
    return [*map(_without_surrogates, value)] if isinstance(value, list) else value if isinstance(value, str) else value


def _find_above(path: Path, file: str) -> Path | None:
    return next((folder for folder in path.parents if (folder / file).is_file()), None)
