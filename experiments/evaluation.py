"""Evaluate trained runs at one of their checkpoints, as they evaluate themselves while they are trained."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from supple.engine.loading import find_state, load_states
from supple.engine.loop import Warn
from supple.engine.user_code import plugins
from supple.registry.errors import UsageError

from .history.logs import Row
from .results import load

if TYPE_CHECKING:
    from pandas import DataFrame

Which = Literal["current", "past"]
EPISODES = 10  # of agents whose runs make no evaluations


def evaluate(
    path: str | Path,
    *,
    tasks: Which = "current",
    step: int | None = None,
    episodes: int | None = None,
    plugin: str | Sequence[str] = (),
    warn: Warn = print,
) -> "DataFrame":
    """Return how well trained networks do: a row for each run, seed and task of a run, a comparison or a sweep.

        evaluate("runs/a", tasks="past", episodes=100)

    A row has the columns of all frames (`Results`), the `step` of the checkpoint, the `task` and its `name`, and the
    numbers that the run logs in its own evaluations, such as `eval/return` or `test_accuracy`. Nothing is written.

    Args:
        path: The folder.
        tasks: "current" for the task of the checkpoint, or "past" for all that have begun by then.
        step: The step of the checkpoint. By default, the newest.
        episodes: Episodes of an agent in each task, whose mean return is given. By default, those of the run, which
            give the same returns again, or 10 if it has none.
        plugin: The plug-ins with which the runs were started: one or several files or packages.
        warn: Called with lines for the user.

    Raises:
        UsageError: The runs are of another kind than the arguments, or a plug-in is missing.
        RunError: A run has no such checkpoint.
    """
    plugins.load_here(plugin)
    rows_of = cache(lambda folder: _evaluate(folder, tasks, step, episodes, warn))  # of a stack, all seeds at once
    return load(path).frame(lambda run: rows_of(run.path).get(run.seed, []))


def _evaluate(path: Path, tasks: Which, step: int | None, episodes: int | None, warn: Warn) -> dict[int, list[Row]]:
    """Return the rows of each seed of a run. Seeds that have diverged have none."""
    rows: dict[int, list[Row]] = {}
    for at, work in load_states(path, dict([find_state(path, step)]), warn):
        settings: Any = work.settings
        if hasattr(settings, "eval_episodes"):
            settings.eval_episodes, settings.eval_tasks = episodes or settings.eval_episodes or EPISODES, "current"
        elif episodes is not None:
            raise UsageError(f"--episodes {episodes} is for agents, but {path} trains none")
        begun = [task for task in work.tasks if task.start < max(at, 1)]
        for task in {"past": begun, "current": begun[-1:]}[tasks]:
            numbers = work.evaluate(task)
            numbers.pop("train_loss", None)  # since the run's last evaluation
            for member in work.living:
                own = {name: value[member] if work.seeds else value for name, value in numbers.items()}
                row = {"step": at, "task": task.index, "name": task.name, **own}
                rows.setdefault(settings.members[member], []).append(row)
    return rows
