"""The run directory: config.json, the logs (TensorBoard's file among them) and checkpoints.

The logs only grow while a run goes on. A checkpoint remembers how long they were, and resuming cuts them back
to that length, so that a run which was killed writes the same bytes as one which was not.
"""

import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import metadata
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, BinaryIO

from . import claim, files, tensorboard
from .errors import RunError, UsageError

LOGS = {
    "metrics": "metrics.jsonl",
    "episodes": "episodes.jsonl",
    "tasks": "tasks.jsonl",
    "events": "events.jsonl",
    "tensorboard": tensorboard.FILE,
}
CHECKPOINTS = "checkpoints"
STATE = ("algorithm", "settings", "tasks", "start_step", "stop_step")  # what a state depends on, in config.json


def versions() -> dict[str, str]:
    """Return versions of everything that a result depends on."""
    found = {"python": platform.python_version()}
    for name in ("supple", "torch", "numpy", "gymnasium", "mujoco", "ale-py"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class RunDirectory:
    """One run on the disk. Make it with `create` or `open`; `close` it, or use it in a with statement."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path, self.config = path, config
        self.checkpoints = path / CHECKPOINTS
        self.claim: claim.Claim | None = None  # of the process that trains
        self._files: dict[str, BinaryIO] = {}
        self._open = ExitStack()
        self._started = time.monotonic()
        self._returns: list[float] = []  # of the episodes since TensorBoard was last told of them

    @staticmethod
    def create(path: Path, config: dict[str, Any], *beside: str) -> "RunDirectory":
        """Start a new run directory. Raises UsageError if the path already holds something, but for what is named."""
        start_folder(path, "config.json", {**config, "versions": versions()}, *beside)
        return RunDirectory.open(path)

    @staticmethod
    def open(path: Path) -> "RunDirectory":
        """Open an existing run directory. Raises UsageError if there is none."""
        config = read_json(path / "config.json", f"{path} is no run directory")
        if missing := [key for key in STATE if key not in config]:
            raise UsageError(f"{path} is no run directory: its config.json is not one of supple (no {missing[0]!r})")
        return RunDirectory(path, config)

    @property
    def identity(self) -> str:
        """A checkpoint's mark that it belongs to this run."""
        return identity_of(self.config)

    @property
    def end(self) -> int:
        """The step (or update) at which the run will end."""
        stop = self.config["stop_step"]
        return int(self.config["total_steps"] if stop is None else stop)

    def start_logs(self, lengths: dict[str, int], seconds: float, logs: Sequence[str]) -> None:
        """Open these logs for appending, cut back to the byte lengths that a checkpoint recorded.

        seconds: how long the run had taken by then; the logs' `time` goes on from there.
        """
        self._started = time.monotonic() - seconds
        (self.path / tensorboard.FILE).parent.mkdir(exist_ok=True)
        for name in logs:
            path, length = self.path / LOGS[name], lengths.get(name, 0)
            path.touch()
            if (size := path.stat().st_size) < length:
                raise RunError(f"{path}: {size} bytes, but its checkpoint recorded {length}: the log was cut short")
            os.truncate(path, length)
            self._files[name] = self._open.enter_context(path.open("ab"))
        if not lengths.get("tensorboard"):
            self._files["tensorboard"].write(tensorboard.header())

    def seconds(self) -> float:
        """Return seconds of training so far, interruptions not counted."""
        return time.monotonic() - self._started

    def metrics(self, step: int, values: dict[str, float], **labels: int) -> None:
        """Append one line of numbers to metrics.jsonl, and to TensorBoard, with the mean return of recent episodes.

        labels: which of several series it belongs to, such as seed=3; in TensorBoard a part of the name."""
        self._write("metrics", {"step": step, "time": round(self.seconds(), 3), **labels, **values})
        self._scalars(step, values, labels)
        self._tell_returns(step)

    def episode(self, **fields: Any) -> None:
        """Append one finished episode to episodes.jsonl."""
        self._write("episodes", fields)
        self._returns.append(fields["return"])

    def task(self, **fields: Any) -> None:
        """Append what became of one task to tasks.jsonl, and its numbers to TensorBoard."""
        self._write("tasks", fields)
        step, labels = fields["step"], {"seed": fields["seed"]}
        numbers = {name: v for name, v in fields.items() if isinstance(v, float)}
        self._scalars(step, {f"task/{name}": value for name, value in numbers.items()}, labels)

    def event(self, **fields: Any) -> None:
        """Append one event to events.jsonl, where others can read it at once."""
        self._write("events", fields)
        if "events" in self._files:
            self._files["events"].flush()

    def _scalars(self, step: int, values: Mapping[str, float], labels: Mapping[str, int]) -> None:
        series = "".join(f"{label}-{number}/" for label, number in labels.items())
        named = {series + name: value for name, value in values.items()}
        self._files["tensorboard"].write(tensorboard.scalars(step, named))

    def _tell_returns(self, step: int) -> None:
        if self._returns:
            self._scalars(step, {"train/return": fmean(self._returns)}, {})
            self._returns.clear()

    def _write(self, log: str, fields: dict[str, Any]) -> None:
        self._files[log].write(json.dumps(_strict(fields), allow_nan=False).encode() + b"\n")

    def flush(self) -> None:
        """Hand what was logged to the operating system, so that others can read it."""
        for file in self._files.values():
            file.flush()

    def log_lengths(self, step: int) -> dict[str, int]:
        """Return byte lengths of the logs, all of it on the disk, at the step of a checkpoint."""
        self._tell_returns(step)  # which no checkpoint keeps
        self.flush()
        for file in self._files.values():
            os.fsync(file.fileno())
        return {name: file.tell() for name, file in self._files.items()}

    def close(self) -> None:
        """Close every log, even where one of them cannot be written."""
        self._open.close()

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def identity_of(config: Mapping[str, Any]) -> str:
    """Return a sum over all in a run's config.json that its state depends on."""
    return hashlib.sha256(json.dumps([config[key] for key in STATE]).encode()).hexdigest()


def start_folder(path: Path, name: str, value: Any, *beside: str) -> None:
    """Make a new folder that holds one JSON file, or make nothing.

    Raises UsageError if `path` holds something, but for what is named in `beside` and this process's claim."""
    known = {f"{name}.tmp", claim.FILE, *beside}  # the first of a process that was killed while it began here
    if path.exists() and (not path.is_dir() or any(entry.name not in known for entry in path.iterdir())):
        raise UsageError(
            f"--out {path} already holds another run or other files: choose a new folder, "
            f"or continue with `supple resume {path}`"
        )
    new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    try:
        write_json(path / name, value)
    except BaseException:
        if new:
            path.rmdir()
        raise


def read_json(path: Path, otherwise: str) -> dict[str, Any]:
    """Read a JSON object. Raises UsageError beginning with `otherwise` if there is no such file, RunError if
    it is damaged."""
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{otherwise}: it has no {path.name}") from None
    except ValueError as error:
        raise RunError(f"{path}: damaged ({error})") from error
    if not isinstance(value, dict):
        raise RunError(f"{path}: damaged (not a JSON object)")
    return value


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    files.replace(path, f"{json.dumps(value, indent=2)}\n".encode())


def _strict(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    return value
