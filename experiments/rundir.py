"""The run directory: config.json, the three logs, TensorBoard files and checkpoints.

The logs only grow while a run goes on. A checkpoint remembers how long they were, and resuming cuts them back
to that length, so that a run which was killed writes the same bytes as one which was not.
"""

import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from .checkpoint import sync
from .errors import RunError, UsageError

LOGS = ("metrics", "episodes", "events")


def versions() -> dict[str, str]:
    """Versions of everything that a result depends on."""
    found = {"python": platform.python_version()}
    for name in ("supple", "torch", "numpy", "gymnasium", "mujoco"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class RunDirectory:
    """One run on the disk. Make it with `create` or `open`."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path, self.config = path, config
        self.checkpoints = path / "checkpoints"
        self._files: dict[str, TextIO] = {}
        self._board: Any = None
        self._started = time.monotonic()

    @staticmethod
    def create(path: Path, config: dict[str, Any]) -> "RunDirectory":
        """Start a new run directory. Raises UsageError if the path already holds something."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(
                f"--out {path} already holds another run or other files: choose a new folder, "
                f"or continue a run with `supple train --resume {path}`"
            )
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "config.json", {**config, "versions": versions()})
        return RunDirectory.open(path)

    @staticmethod
    def open(path: Path) -> "RunDirectory":
        """Open an existing run directory. Raises UsageError if there is none."""
        try:
            config = json.loads((path / "config.json").read_text())
        except FileNotFoundError:
            raise UsageError(f"{path} is no run directory: it has no config.json") from None
        except ValueError as error:
            raise RunError(f"{path / 'config.json'}: damaged ({error})") from error
        return RunDirectory(path, config)

    def start_logs(self, lengths: dict[str, int], step: int, seconds: float) -> None:
        """Open the logs for appending, cut back to the byte lengths that a checkpoint recorded.

        seconds: how long the run had taken by then; the logs' `time` goes on from there.
        """
        self._started = time.monotonic() - seconds
        for name in LOGS:
            file, length = self.path / f"{name}.jsonl", lengths.get(name, 0)
            file.touch()
            if (size := file.stat().st_size) < length:
                raise RunError(f"{file}: {size} bytes, but its checkpoint recorded {length}: the log was cut short")
            os.truncate(file, length)
            self._files[name] = file.open("a")
        # TensorBoard takes a second to import; only a run that trains needs it.
        from torch.utils.tensorboard import SummaryWriter

        self._board = SummaryWriter(str(self.path / "tensorboard"), purge_step=step)

    def seconds(self) -> float:
        """Seconds of training so far, interruptions not counted."""
        return time.monotonic() - self._started

    def metrics(self, step: int, values: dict[str, float]) -> None:
        """Append one line of numbers to metrics.jsonl, and to TensorBoard."""
        self._write("metrics", {"step": step, "time": round(self.seconds(), 3), **values})
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def episode(self, **fields: Any) -> None:
        """Append one finished episode to episodes.jsonl."""
        self._write("episodes", fields)

    def event(self, **fields: Any) -> None:
        """Append one event to events.jsonl."""
        self._write("events", fields)

    def _write(self, log: str, fields: dict[str, Any]) -> None:
        self._files[log].write(json.dumps(fields) + "\n")

    def flush(self) -> None:
        """Hand what was logged to the operating system, so that others can read it."""
        for file in self._files.values():
            file.flush()

    def log_lengths(self) -> dict[str, int]:
        """Byte lengths of the logs, all of it on the disk."""
        self.flush()
        for file in self._files.values():
            os.fsync(file.fileno())
        return {name: file.tell() for name, file in self._files.items()}

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._board is not None:
            self._board.close()


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.write_text(json.dumps(value, indent=2) + "\n")
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
