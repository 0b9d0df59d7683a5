"""The run directory: logs and checkpoints.

Logs are only appended to. A checkpoint records their lengths, and resuming truncates them to these lengths. A run that
was killed therefore writes the same bytes as one that was not.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from statistics import fmean
from typing import Any

from supple.engine.machine.torchrun import is_first
from supple.registry.errors import RunError

from . import logs
from .lock import Lock
from .strict_json import json_line

LOGS = {
    "metrics": "metrics.jsonl",
    "episodes": "episodes.jsonl",
    "tasks": "tasks.jsonl",
    "events": "events.jsonl",
}
CHECKPOINTS = "checkpoints"
Shown = Mapping[str, float | str]  # numbers and texts of a step, by name, for trackers
NUMBERS = ("evaluation", "random")  # events that tell only a number, which would be a text of its own in trackers
SHOWN = 5.0  # seconds after which returns of episodes are shown, at the latest


class RunDirectory(AbstractContextManager["RunDirectory"]):
    """The logs and checkpoints of a run. `close` it, or use it in a with statement.

    `identity` is the mark of the run's checkpoints. Of the processes that train a run together, only the first writes.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path, self.identity = path, identity
        self.checkpoints = path / CHECKPOINTS
        self.lock: Lock | None = None  # of the process that trains the run
        self._logs: dict[str, logs.Log] = {}
        self._open = ExitStack()
        self._started = time.monotonic()
        # shows named numbers, or the text of an event, at a step; set by `trackers.tracking`
        self.show: Callable[[int, Shown], None] = lambda step, values: None
        # returns of episodes that were not shown yet, by seed; under None, those of a run of one seed
        self._returns: dict[int | None, list[float]] = defaultdict(list)
        self._shown = self._started

    def start_logs(self, lengths: dict[str, int], seconds: float, names: Sequence[str]) -> None:
        """Open logs for appending, truncated to the lengths that a checkpoint recorded.

        Args:
            lengths: Lengths in bytes, by log; {} for a new run.
            seconds: Seconds of training at the checkpoint, from which `time` in the logs continues.
            names: Names of the logs.

        Raises:
            RunError: A log is shorter than recorded, or has lines although there is no folder for checkpoints, which
                is made before the first line is logged.
        """
        if not is_first():
            return
        self._started = time.monotonic() - seconds
        begun = [file for name in LOGS.values() if (file := self.path / name).exists() and file.stat().st_size]
        if begun and not self.checkpoints.exists():
            raise RunError(f"{begun[0]} has lines, but {self.checkpoints} is missing: restore it, or start a new run")
        self.checkpoints.mkdir(exist_ok=True)
        for name in names:
            self._logs[name] = log = logs.Log(self.path / LOGS[name], lengths.get(name, 0))
            self._open.callback(log.close)
            self._open.callback(self.flush, name)

    def seconds(self) -> float:
        """Return the seconds of training so far, without interruptions."""
        return time.monotonic() - self._started

    def metrics(self, step: int, values: dict[str, float], **labels: int) -> None:
        """Append numbers to metrics.jsonl, and show them and the mean return of recent episodes.

        `labels`, such as seed=3, say which of several series a line belongs to. In trackers they are in the names.
        """
        self._write("metrics", {"step": step, "time": round(self.seconds(), 3), **labels, **values})
        self._scalars(step, values, labels)
        self._show_returns(step)

    def episode(self, **fields: Any) -> None:
        """Append one finished episode to episodes.jsonl."""
        self._write("episodes", fields)
        self._returns[fields.get("seed")].append(fields["return"])
        if time.monotonic() - self._shown > SHOWN:
            self._show_returns(fields["step"])

    def task(self, **fields: Any) -> None:
        """Append the results of one task to tasks.jsonl, and show its numbers."""
        self._write("tasks", fields)
        step, labels = fields["step"], {"seed": fields["seed"]}
        numbers = {name: v for name, v in fields.items() if isinstance(v, float)}
        self._scalars(step, {f"task/{name}": value for name, value in numbers.items()}, labels)

    def event(self, **fields: Any) -> None:
        """Append one event to events.jsonl, where it can be read immediately, and show a text about it."""
        self._write("events", fields)
        if "events" in self._logs:
            self.flush("events")
        if fields["event"] not in NUMBERS:
            self.show(fields["step"], {"event": _describe(fields)})

    def _scalars(self, step: int, values: Mapping[str, float], labels: Mapping[str, int]) -> None:
        series = "".join(f"{label}-{number}/" for label, number in labels.items())
        self.show(step, {series + name: value for name, value in values.items()})

    def _show_returns(self, step: int) -> None:
        for seed, returns in self._returns.items():
            self._scalars(step, {"train/return": fmean(returns)}, {} if seed is None else {"seed": seed})
        self._returns.clear()
        self._shown = time.monotonic()

    def _write(self, log: str, fields: dict[str, Any]) -> None:
        if is_first() and self._logs[log].add(json_line(fields)):
            self.flush(log)

    def flush(self, *names: str) -> None:
        """Write waiting log lines to the files, so that other processes can read them, of all logs or of these.

        Raises RunError if a log is no longer this process's alone.
        """
        for name in names or self._logs:
            self._logs[name].flush()

    def log_lengths(self, step: int) -> dict[str, int]:
        """Flush all logs to the disk, and return their lengths in bytes for the checkpoint of a step."""
        self._show_returns(step)  # because checkpoints do not contain these
        self.flush()
        for log in self._logs.values():
            log.sync()
        return {name: log.length for name, log in self._logs.items()}

    def close(self) -> None:
        """Flush and close all logs, even if one of them cannot be written."""
        self._open.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def require_ended(run: Path, lengths: Mapping[str, int]) -> None:
    """Raise RunError if a log of a run that has ended does not have the length that its last checkpoint recorded.

    Logs that were removed are left out.
    """
    for name in lengths.keys() & LOGS.keys():  # earlier versions had TensorBoard's file among them
        if (file := run / LOGS[name]).exists():
            logs.require_length(file, lengths[name], "the run ended with")


def _describe(event: Mapping[str, Any]) -> str:
    """Return a text for an event, such as `intervention: hook fire@task, learner actor`."""
    more = {name: value for name, value in event.items() if name not in ("event", "step")}
    return f"{event['event']}: " + ", ".join(f"{name} {v}" for name, v in more.items() if isinstance(v, int | str))
