"""Whole runs, comparisons and sweeps by one call, for scripts and notebooks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from . import comparison as comparisons
from . import runs, sweep, workers
from .errors import RunError, UsageError
from .fields import Fields, preset_of, settings_with, value_of
from .jobs import Job, jobs_of, work_off
from .kinds import Kind, Preset, find_kind
from .loop import Warn
from .results import Results, load
from .settings import RunSettings

Asked = tuple[Kind, Preset | None, RunSettings]
Step = Callable[[int], None]


def train(
    kind: str,
    settings: Fields | RunSettings | None = None,
    hooks: Sequence[str] = (),
    *,
    out: str | Path,
    preset: str | None = None,
    progress: Step = lambda step: None,
    warn: Warn = print,
) -> Results:
    """Train one run in this process, and return its results.

        results = train("ppo", {"env": "CartPole-v1", "steps": 50_000}, hooks=["fire@0.5"], out="runs/a")
        results.episodes["return"].tail(100).mean()

    kind: as in `supple list kinds`. settings: fields of its settings, by the names that the command line has with
    underscores, or such a dataclass. preset: of the command line, or a benchmark of `vision`; settings override it.
    out: the run's folder, new or empty. progress: takes the step. warn: takes lines for the user.

    Raises UsageError for what cannot work, before anything is written, and RunError where training cannot go on;
    `resume` then goes on from the last checkpoint.
    """
    row, _, made = _asked(kind, preset, settings)
    if hooks:
        made = replace(made, hook=tuple(hooks))
    path = Path(out)
    with _threads_kept():
        runs.create(path, row.name, made, f"supple.experiments.train({kind!r}, …)", warn)
        runs.train(path, progress, warn)
    return load(path)


def compare(
    kind: str,
    settings: Fields | RunSettings | None = None,
    arms: Sequence[str] = (),
    *,
    out: str | Path,
    preset: str | None = None,
    seeds: Sequence[int] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    reference: str | None = None,
    fork_at: float | None = None,
    fork_at_task: int | None = None,
    jobs: int = 1,
    warn: Warn = print,
) -> Results:
    """Train every arm for every seed, from a common trunk where they fork, and return the results of all.

        results = compare("ppo", preset="gym-control-small", seeds=range(3), out="runs/b")
        results.metrics.groupby("arm")["agent/weight_norm"].last()

    arms: hooks, or several joined by " + ", or "none"; default: the preset's, or the kind's. seeds: default: the
    preset's, or 0; of kinds that train seeds as one stack they are a setting. vary: a setting and its values, each
    with every arm. reference: "fresh", an agent that begins anew with every task, or "none" for no reference; default:
    the preset's. fork_at, fork_at_task: where arms part, as a fraction of the steps or as the task that begins there.
    jobs: runs at a time; with more than 1 they are trained in processes that import the calling script, which then
    needs `if __name__ == "__main__":`. Other arguments, and what is raised, are those of `train`.
    """
    row, given, made = _asked(kind, preset, settings)
    if jobs < 1:
        raise UsageError(f"jobs must be 1 or more, got {jobs}")
    stacked = hasattr(made, "seeds")
    if stacked and seeds is not None:
        made = replace(made, **dict[str, Any](seeds=tuple(seeds)))
    if seeds is None:
        seeds = given.seeds if given else (0,)
    varied = {name: tuple(value_of(row, name, value) for value in values) for name, values in (vary or {}).items()}
    arms = tuple(arms) or (given.arms if given else None) or row.arms
    path = Path(out)
    with _threads_kept():
        plan = comparisons.plan(
            row,
            given,
            made,
            made.members if stacked else tuple(seeds),
            comparisons.points_of(arms, varied or comparisons.vary_of(given, made)),
            reference=reference or (given.reference if given else None),
            fork_at=fork_at,
            fork_at_task=fork_at_task,
            command=f"supple.experiments.compare({kind!r}, …)",
            warn=warn,
        )
        plan = comparisons.create(path, plan, jobs, warn)
        _finish(jobs_of(path, plan), jobs, warn)
    return load(path)


def resume(path: str | Path, *, jobs: int = 1, progress: Step = lambda step: None, warn: Warn = print) -> Results:
    """Bring what lies in a folder, a run, a comparison or a sweep, to its end from its newest checkpoints; return its
    results.

    Runs of several that failed are left as they are. Arguments, and what is raised, are as in `compare`.
    """
    path = Path(path)
    with _threads_kept():
        if (path / sweep.FILE).is_file() or (path / comparisons.FILE).is_file():
            _finish(sweep.open_queue(path, jobs, warn), jobs, warn)
        else:
            runs.train(path, progress, warn)
    return load(path)


def _asked(name: str, preset: str | None, settings: Fields | RunSettings | None) -> Asked:
    """Return a kind, its preset if one is named, and the settings. Raises UsageError."""
    kind = find_kind(name)
    if not isinstance(settings, RunSettings):
        given = preset_of(kind, preset)
        return kind, given, settings_with(kind, given, settings or {})
    if not isinstance(settings, made := kind.settings_class()):
        raise UsageError(f"settings of {kind.name} are {made.__name__}, not {type(settings).__name__}")
    if preset:
        raise UsageError("a preset takes the fields that differ from it, as a dictionary, not whole settings")
    return kind, None, settings


def _finish(jobs: Sequence[Job], processes: int, warn: Warn) -> None:
    """Run what is left of several runs. Raises RunError, when all others are at their end, if runs failed."""
    if processes > 1:
        workers.run_jobs(jobs, processes, lambda job, step, end: None, warn)
    else:
        work_off(list(jobs), lambda job, held: job.attempt(held, lambda step, end: None, warn))
    if failed := [job for job in jobs if job.failed]:
        reason = (failed[0].outcome or {}).get("reason")
        raise RunError(f"{len(failed)} of {len(jobs)} runs failed, the first in {failed[0].folder}: {reason}")


@contextmanager
def _threads_kept() -> Iterator[None]:
    """Give PyTorch back the threads that it had: a run sets its own number of them."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
