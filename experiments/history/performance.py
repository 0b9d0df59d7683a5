"""How well each task was done after each other task: the entries of the matrix of a run."""

from collections.abc import Iterator
from typing import Any

from .data import RunData

LISTS = ("accuracies", "scores", "losses")  # of outcomes: one entry for each task, from the first on


def performance_of(run: RunData) -> Iterator[dict[str, Any]]:
    """Yield what was evaluated at the end of each task: the tasks `after` which and `on` which, from 0, and the value.

    The values are an agent's mean returns, or the accuracies, scores or losses among the results of other kinds. Where
    they are of the current task alone, only this one is yielded."""
    ends = {task.index: task.end for task in run.tasks}
    found = {}
    for row in run.metrics:
        if "eval/return" in row and row["step"] == ends.get(row.get("task", -1)):
            found[row["task"], row["task"]] = row["eval/return"]
    for row in run.of_kind("evaluation"):
        found[row["task"], row["evaluated"]] = row["return"]
    for row in run.outcomes:
        several = next((row[name] for name in LISTS if name in row), None)
        if several is not None:
            found |= {(row["task"], on): value for on, value in enumerate(several)}
        elif "test_accuracy" in row:
            found[row["task"], row["task"]] = row["test_accuracy"]
    for after, on in sorted(found):
        yield {"after": after, "on": on, "value": found[after, on]}
