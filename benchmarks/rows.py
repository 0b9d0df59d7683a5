"""Files of finished runs, one row of JSON a line, and the processes that add what is missing.

So an experiment of many runs can be cut off at any moment: the next call makes the runs that have no row yet.
"""

import json
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

Job = TypeVar("Job")
Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """Return the rows of a file, or none if it does not exist."""
    return [json.loads(line) for line in path.open()] if path.exists() else []


def add_missing(
    path: Path,
    jobs: Sequence[Job],
    is_of: Callable[[Row, Job], bool],
    run: Callable[[Job], Row],
    say: Callable[[Row], str],
    processes: int = 2,
    minutes: float = float("inf"),
) -> None:
    """Run the jobs that have no row in a file, and add the row of each when it ends, whatever the order.

    A run that fails has no row, and prevents no other run. The processes end when this one does, even by `kill -9`.

    Args:
        is_of: Whether a row is that of a job.
        run: Makes the run of a job, in another process.
        say: Returns what is printed of a row.
        minutes: No run begins after so many minutes.

    Raises:
        SystemExit: After all other runs, if some failed.
    """
    have = read(path)
    todo = [job for job in jobs if not any(is_of(row, job) for row in have)]
    print(f"{len(todo)} of {len(jobs)} runs to do", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.time() + 60 * minutes
    failed = 0
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _end_with_parent) as pool:
        for future in as_completed([pool.submit(_unless_late, run, job, deadline) for job in todo]):
            if (error := future.exception()) is not None:
                traceback.print_exception(error)
                failed += 1
            elif (row := future.result()) is not None:
                with path.open("ab", buffering=0) as file:  # in one piece: a cut must not leave half a row
                    file.write(f"{json.dumps(row)}\n".encode())
                print(say(row), flush=True)
    if failed:
        raise SystemExit(f"{failed} of {len(todo)} runs failed")


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, in whatever way."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _unless_late(run: Callable[[Job], Row], job: Job, deadline: float) -> Row | None:
    return run(job) if time.time() < deadline else None
