"""The lines that a command prints before training, its plan, and after it, the results and the next command."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from supple.engine.user_code import plugins

if TYPE_CHECKING:
    from supple.engine.spec import RunSpec
    from supple.experiments.queue.queue import Queue

MOST_NAMES = 5  # in a line; more are counted


def plan_of_run(path: Path, spec: "RunSpec", step: int) -> Iterator[str]:
    """Yield what will be trained from `step` on, for how long, and where the results go."""
    if step >= spec.end:
        yield f"{path} has been trained to its end, step {spec.end:,}"
        return
    kind, seeds = spec.kind_row, spec.seeds
    tasks = [task for task in spec.resolved.tasks if task["end"] > spec.start.step and task["start"] < spec.end]
    names = dict.fromkeys(str(task["name"]) for task in tasks)
    count = f"{len(tasks)} tasks, " if len(tasks) > 1 else ""
    start = f"from step {step:,} of " if step else ""
    yield (
        f"plan: {kind.name} on {_list(list(names))}: {count}{start}{spec.end:,} {kind.unit}, "
        f"seed{'s' if len(seeds) > 1 else ''} {_list(seeds)}"
    )
    if spec.resolved.hooks:
        yield f"hooks: {_list(spec.resolved.hooks)}"
    yield f"results: {path}"


def plan_of_queue(path: Path, queue: "Queue", processes: int) -> Iterator[str]:
    """Yield what the comparisons of these runs compare, how many runs remain, and where the results go."""
    comparisons: dict[Path, list[RunSpec]] = {}
    for run in queue:
        comparisons.setdefault(run.path, []).append(run.spec)
    for specs in comparisons.values():
        arms = [spec for spec in specs if spec.labels.arm is not None]
        variants, step = len({str(spec.labels.variant) for spec in arms}), max(spec.start.step for spec in specs)
        words = [
            f"{specs[0].labels.study}: {specs[0].kind}" if specs[0].labels.study else specs[0].kind,
            f"arms {_list(list(dict.fromkeys(spec.labels.arm for spec in arms)))}",
            f"{variants} variants" if variants > 1 else "",
            f"seeds {_list(list(dict.fromkeys(seed for spec in specs for seed in spec.seeds)))}",
            f"fork at step {step:,}" if step else "",
        ]
        yield f"plan: {', '.join(filter(None, words))}"
    failed, remaining = len(queue.failed), len(queue.left)
    finished = len(queue) - failed - remaining
    yield (
        f"{len(queue):,} runs: {finished:,} finished, {failed:,} failed, {remaining:,} remaining, "
        f"{min(processes, remaining)} at a time"
    )
    yield f"results: {path}"


def next_of_run(path: Path) -> Iterator[str]:
    """Yield the commands that follow a finished run."""
    yield f"next: {plugins.command('report', path)}  (tables and figures)"
    yield f"      {plugins.command('doctor', path)}  (how much plasticity was lost)"


def next_of_queue(queue: "Queue") -> str:
    """Return the command that follows a report on several runs."""
    first = next(run for run in queue if run.spec.labels.arm is not None)  # of the first arm, which is often `none`
    return f"next: {plugins.command('doctor', first.folder)}  (how much plasticity a run has lost)"


def _list(names: Sequence[object]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(map(str, names[:MOST_NAMES])) + more
