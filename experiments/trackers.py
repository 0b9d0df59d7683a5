"""Weights & Biases, MLflow and trackio beside TensorBoard: a run's numbers and events shown there while it goes on.

What is sent are the records of TensorBoard's file, which the run writes anyway. A thread for each tracker reads them
from there and hands them on, only as far as the last checkpoint: so nothing that was handed on is ever logged again,
since a resumed run cuts its logs back to that checkpoint. Rows are counted from 0, and a library says from which row on
it wants them (`sent`). So a run that was killed goes on as the same one, no row is there twice, and none is missing.

Nothing goes to the network unless the user has told the library so by its own environment variables. And nothing here
ends or slows a run: what goes wrong is said once, and the run goes on without that tracker.
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

from . import files, sealed, tensorboard
from .errors import in_words
from .loop import Warn
from .rundir import RunDirectory

FILE = "tracked.json"  # in a run's folder: by which id trackers know it
FOLDER = "trackers"  # in the folder of a run, a comparison or a sweep: what trackers store here
PROJECT = "supple"
BATCH = 64  # rows at a time
MOST = 1000  # numbers that MLflow takes at a time
PATIENCE = 60.0  # seconds that a run waits at its end for what is still being sent


@dataclass(frozen=True)
class Place:
    """Hold what a tracker is told of a run: its id, its name, the group of runs that it belongs to, the folder for what
    is stored here, and the contents of config.json."""

    id: str
    name: str
    group: str | None
    folder: Path
    config: Mapping[str, Any]


class Tracker(Protocol):
    """A run as a library shows it. Anything may be raised."""

    sent: int | None  # rows that it has had before; None where it cannot say: then all that was logged before

    def send(self, rows: Sequence[tensorboard.Row]) -> None:
        """Hand rows on, those from `sent` on in their order."""

    def close(self, failed: bool) -> None:
        """Say that the run is at its end, or has failed; wait until all is stored."""


class Wandb:
    """Weights & Biases, offline unless WANDB_MODE says otherwise; `wandb sync` uploads what is in the folder."""

    def __init__(self, place: Place) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        if mode == "offline":  # which cannot go on with what is there: it gets all rows anew
            for old in place.folder.glob(f"wandb/offline-run-*-{place.id}"):
                shutil.rmtree(old)
        quiet = wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True)
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), id=place.id, name=place.name, group=place.group,
            config=dict(place.config), dir=str(place.folder), mode=mode, resume="allow", reinit="create_new",
            settings=quiet,
        )  # fmt: skip
        self.run.define_metric("step", hidden=True)
        self.run.define_metric("*", step_metric="step")
        self.sent: int | None = self.run.step

    def send(self, rows: Sequence[tensorboard.Row]) -> None:
        for row in rows:
            self.run.log({**row.values, "step": row.step}, step=row.number)

    def close(self, failed: bool) -> None:
        self.run.finish(exit_code=int(failed))


class MLflow:
    """MLflow, in a database in the folder unless MLFLOW_TRACKING_URI names a server or another one; it leaves out
    itself what it has had already."""

    def __init__(self, place: Place) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        own = None if "MLFLOW_TRACKING_URI" in os.environ else f"sqlite:///{place.folder / 'mlflow.db'}"
        with files.in_turn(place.folder):  # of several runs at once, one makes the database
            self.client = MlflowClient(tracking_uri=own)
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
            found = self.client.get_experiment_by_name(name)
            files_at = str(place.folder / "mlflow") if own else None
            experiment = found.experiment_id if found else self.client.create_experiment(name, files_at)
        runs = self.client.search_runs([experiment], f"tags.`supple.id` = '{place.id}'")
        tags = {"supple.id": place.id, "supple.group": place.group or ""}
        self.id = (runs[0] if runs else self.client.create_run(experiment, tags=tags, run_name=place.name)).info.run_id
        self.client.update_run(self.id, "RUNNING")
        self.sent: int | None = int(runs[0].data.tags.get("supple.rows", 0)) if runs else 0
        for name, value in {**place.config, **place.config["settings"]}.items() if not runs else ():
            self.client.log_param(self.id, name, str(value)[:6000])

    def send(self, rows: Sequence[tensorboard.Row]) -> None:
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
    """trackio, where it keeps what is local (TRACKIO_DIR), unless TRACKIO_SPACE_ID or TRACKIO_SERVER_URL names a
    place elsewhere; it does not say how many rows have come there."""

    def __init__(self, place: Place) -> None:
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        with redirect_stdout(StringIO()):  # which would say the same of every run
            self.run = trackio.init(
                PROJECT, f"{place.name} {place.id}", place.group, config=dict(place.config), resume="allow",
                embed=False, auto_log_cpu=False, auto_log_gpu=False,
            )  # fmt: skip
        elsewhere = any(os.environ.get(name) for name in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"))
        self.sent = None if elsewhere else SQLiteStorage.get_log_count(PROJECT, self.run.name, self.run.id)

    def send(self, rows: Sequence[tensorboard.Row]) -> None:
        for row in rows:
            self.run.log(dict(row.values), step=row.step)

    def close(self, failed: bool) -> None:
        with redirect_stdout(StringIO()):
            self.run.finish()


TRACKERS: dict[str, Callable[[Place], Tracker]] = {"wandb": Wandb, "mlflow": MLflow, "trackio": Trackio}


class Sender:
    """Hand the rows of a run on to one tracker, in a thread of its own. log: TensorBoard's."""

    def __init__(self, name: str, place: Place, log: Path) -> None:
        self.name, self.place, self.log = name, place, log
        self.sizes: queue.SimpleQueue[int | None] = queue.SimpleQueue()  # bytes that checkpoints cover
        self.failed = False  # the run, by its end
        self.problem = ""
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def close(self, failed: bool) -> None:
        """Let the tracker know that no more comes, and wait for it, but not for long."""
        self.failed = failed
        self.sizes.put(None)
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            self.problem = f"still sending {PATIENCE:g} seconds after the end of the run, which did not wait longer"

    def _work(self) -> None:
        try:
            tracker = TRACKERS[self.name](self.place)
            with files.opened(self.log, "rb") as stream:
                number, skipped = 0, tracker.sent
                while (size := self.sizes.get()) is not None:
                    rows = tensorboard.rows(stream, size, number)
                    while some := list(islice(rows, BATCH)):
                        number += len(some)
                        if skipped is not None and (new := [row for row in some if row.number >= skipped]):
                            tracker.send(new)
                    skipped = number if skipped is None else skipped
            tracker.close(self.failed)
        except Exception as error:
            self.problem = f"{in_words(error)}; the run goes on without it"


@contextmanager
def tracking(run: RunDirectory, names: Sequence[str], warn: Warn) -> Iterator[Callable[[int], None]]:
    """Show a run in these trackers while it goes on within this block. Returns what is to be told how many bytes of
    TensorBoard's log a checkpoint covers, at first those from which the run goes on."""
    senders: list[Sender] = []
    left = list(names)  # to begin with: a run that is at its end already is not shown again

    def say() -> None:
        for sender in senders:
            if sender.problem:
                warn(f"--log-to {sender.name}: {sender.problem}")
        senders[:] = [sender for sender in senders if not sender.problem]

    def covered(size: int) -> None:
        while left:
            senders.append(Sender(left.pop(0), _place_of(run), run.path / tensorboard.FILE))
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
    close(failed=False)  # where it is interrupted neither holds: it goes on later


def _place_of(run: RunDirectory) -> Place:
    """Return what trackers are told of a run: a run of a comparison is called after its folders, the arm first and the
    seed last, and is in the group of its comparison, in a sweep of its study."""
    path = run.path.absolute()
    comparison = _above(path, "comparison.json")
    sweep = _above(comparison, "sweep.json") if comparison else None
    group = str(comparison.relative_to(sweep or comparison.parent)) if comparison else None
    name = " ".join(reversed(path.relative_to(comparison).parts)) if comparison else path.name
    folder = (sweep or comparison or path) / FOLDER
    folder.mkdir(exist_ok=True)
    if not (file := path / FILE).exists():
        sealed.write_json(file, {"id": uuid.uuid4().hex[:12]})
    own = sealed.read_json(file, str(file))["id"]
    return Place(own, name, group, folder, {key: value for key, value in run.config.items() if key != "tasks"})


def _above(path: Path, file: str) -> Path | None:
    return next((folder for folder in path.parents if (folder / file).is_file()), None)
