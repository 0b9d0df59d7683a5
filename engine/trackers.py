"""Trackers: TensorBoard, Weights & Biases, MLflow and trackio show the numbers and events of a run in progress.

Every run writes TensorBoard's files; the others are asked for with `--log-to`. Nothing is sent over the network unless
the user has configured the library to do so, by its own environment variables. A problem of one of these is reported
once, and the run continues without that tracker.
"""

import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

from supple.registry.errors import describe_error

from .loop import Warn
from .spec import RunSpec, to_json
from .storage import files, signed_json
from .storage.run_directory import RunDirectory, Shown

BOARD = "tensorboard"  # in a run directory: TensorBoard's files
FLUSHED = 5  # seconds after which TensorBoard shows a row
FILE = "tracked.json"  # in a run directory: the id of the run for trackers
FOLDER = "trackers"  # in the folder of a run, a comparison or a sweep: the local files of trackers
PROJECT = "supple"


@dataclass(frozen=True)
class TrackedRun:
    """The description of a run for a tracker: id, name, group of runs, folder for local files, and config.json."""

    id: str
    name: str
    group: str | None
    folder: Path
    config: Mapping[str, Any]


class TensorBoard:
    """TensorBoard's files. A resumed run hides the rows from after its checkpoint, from the step `purge` on."""

    def __init__(self, folder: Path, purge: int) -> None:
        self.folder, self.purge = folder, purge
        self.writer: Any = None

    def log(self, step: int, values: Shown) -> None:
        if self.writer is None:
            from torch.utils.tensorboard import SummaryWriter  # takes .2 s

            self.writer = SummaryWriter(str(self.folder), purge_step=self.purge, flush_secs=FLUSHED)
        for name, value in values.items():
            (self.writer.add_text if isinstance(value, str) else self.writer.add_scalar)(name, value, step)

    def close(self, failed: bool) -> None:
        if self.writer:
            self.writer.close()


class Wandb:
    """Weights & Biases, offline unless WANDB_MODE says otherwise. `wandb sync` uploads the contents of the folder."""

    def __init__(self, run: TrackedRun) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        quiet = wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True)
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), id=run.id, name=run.name, group=run.group,
            config=dict(run.config), dir=str(run.folder), mode=mode, resume="allow", reinit="create_new",
            settings=quiet,
        )  # fmt: skip
        self.run.define_metric("*", step_metric="step")

    def log(self, step: int, values: Shown) -> None:
        self.run.log({**values, "step": step})

    def close(self, failed: bool) -> None:
        self.run.finish(exit_code=int(failed))


class MLflow:
    """MLflow, with a database in the folder unless MLFLOW_TRACKING_URI names a server or another database."""

    def __init__(self, run: TrackedRun) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        own = None if "MLFLOW_TRACKING_URI" in os.environ else f"sqlite:///{run.folder / 'mlflow.db'}"
        with files.lock_folder(run.folder):  # if several runs start at the same time, only one makes the database
            self.client = MlflowClient(tracking_uri=own)
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
            known = self.client.get_experiment_by_name(name)
            experiment = known.experiment_id if known else self.client.create_experiment(name)
        before = self.client.search_runs([experiment], f"tags.`supple.id` = '{run.id}'")
        tags = {"supple.id": run.id, "supple.group": run.group or ""}
        started = before[0] if before else self.client.create_run(experiment, tags=tags, run_name=run.name)
        self.id = started.info.run_id
        self.client.update_run(self.id, "RUNNING")
        for name, value in {**run.config, **run.config["settings"]}.items() if not before else ():
            self.client.log_param(self.id, name, str(value)[:6000])

    def log(self, step: int, values: Shown) -> None:
        from mlflow.entities import Metric

        now, numbers = int(1000 * time.time()), {name: x for name, x in values.items() if not isinstance(x, str)}
        named = [Metric(re.sub(r"[^\w\-. :/]", "_", name), x, now, step) for name, x in numbers.items()]
        self.client.log_batch(self.id, metrics=named)

    def close(self, failed: bool) -> None:
        self.client.set_terminated(self.id, "FAILED" if failed else "FINISHED")


class Trackio:
    """trackio, in its local folder (TRACKIO_DIR) unless TRACKIO_SPACE_ID or TRACKIO_SERVER_URL names another place."""

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        with redirect_stdout(StringIO()):  # it would print the same for every run
            self.run = trackio.init(
                PROJECT, f"{run.name} {run.id}", run.group, config=dict(run.config), resume="allow",
                embed=False, auto_log_cpu=False, auto_log_gpu=False,
            )  # fmt: skip

    def log(self, step: int, values: Shown) -> None:
        self.run.log(dict(values), step=step)

    def close(self, failed: bool) -> None:
        with redirect_stdout(StringIO()):
            self.run.finish()


# Each logs named numbers, or the text of an event, and is closed as finished or failed. It may raise any exception.
TRACKERS: dict[str, Callable[[TrackedRun], Any]] = {"wandb": Wandb, "mlflow": MLflow, "trackio": Trackio}


@contextmanager
def tracking(run: RunDirectory, spec: RunSpec, warn: Warn) -> Iterator[Callable[[int], None]]:
    """Show a run in TensorBoard and in the trackers of its settings while it is trained in this block.

    Yields:
        A function to call with the step at which training starts. There is no such call if the run has ended already.
    """
    board = TensorBoard(run.path.absolute() / BOARD, 0)
    trackers: dict[str, Any] = {}

    @contextmanager
    def surviving(name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            trackers.pop(name, None)
            warn(f"--log-to {name}: {describe_error(error)}; the run continues without it")

    def show(step: int, values: Shown) -> None:
        board.log(step, values)
        for name, tracker in [*trackers.items()]:
            with surviving(name):
                tracker.log(step, values)

    def start(step: int) -> None:
        board.purge, run.show = step + 1 if step else 0, show
        for name in spec.settings.log_to:
            with surviving(name):
                trackers[name] = TRACKERS[name](_describe_run(run.path, spec))

    def close(failed: bool) -> None:
        for name, tracker in [*trackers.items()]:
            with surviving(name):
                tracker.close(failed)

    with _without_tracebacks():
        try:
            yield start
        except Exception:
            close(failed=True)
            with suppress(OSError):  # the disk may be the reason
                board.close(failed=True)
            raise
        close(failed=False)  # an interrupted run is neither finished nor failed, and may be resumed
        board.close(failed=False)


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Leave it to the run to report what goes wrong in the thread that writes TensorBoard's files, such as a full disk.

    The next row raises the same exception in the run.
    """
    before = threading.excepthook

    def hook(args: Any) -> None:
        if type(args.thread).__module__ != "tensorboard.summary.writer.event_file_writer":
            before(args)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


def _describe_run(path: Path, spec: RunSpec) -> TrackedRun:
    """Return the description of a run for trackers.

    A run of a comparison is named after its folders, from the arm to the seed. Its group is its comparison or, in a
    sweep, its study.
    """
    path = path.absolute()
    comparison = _find_above(path, "comparison.json")
    sweep = _find_above(comparison, "sweep.json") if comparison else None
    group = str(comparison.relative_to(sweep or comparison.parent)) if comparison else None
    name = " ".join(reversed(path.relative_to(comparison).parts)) if comparison else path.name
    folder = (sweep or comparison or path) / FOLDER
    folder.mkdir(exist_ok=True)
    if not (file := path / FILE).exists():
        signed_json.write_json(file, {"id": uuid.uuid4().hex[:12]})
    config = to_json(replace(spec, resolved=replace(spec.resolved, tasks=())))
    return TrackedRun(signed_json.read_json(file, str(file))["id"], name, group, folder, config)


def _find_above(path: Path, file: str) -> Path | None:
    return next((folder for folder in path.parents if (folder / file).is_file()), None)
