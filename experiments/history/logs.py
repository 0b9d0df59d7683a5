"""Read the logs of a run. A line that is damaged is reported by its number."""

from pathlib import Path
from typing import Any

import orjson

from supple.registry.errors import UsageError

Row = dict[str, Any]

LOGS = ("metrics", "episodes", "events", "tasks")


def read_log(run: Path, name: str) -> list[Row]:
    """Return the lines of a run's log, or [] if the run has not written it yet.

    Raises UsageError with the file and line number of a damaged line.
    """
    file = run / f"{name}.jsonl"
    return read_jsonl(file) if file.exists() else []


def read_jsonl(path: Path) -> list[Row]:
    """Return the objects in a JSON-lines file. An incomplete last line, from a crash, is dropped.

    Raises:
        UsageError: Another line is damaged; the message names the file and the line number.
        FileNotFoundError: There is no such file.
    """
    lines = path.read_bytes().rstrip().splitlines()
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            if number < len(lines):
                raise UsageError(f"{path}, line {number}: broken JSON ({error}); expected one object") from error
    return rows
