"""Functions that train whole runs and comparisons, for scripts and notebooks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import isfunction
from pathlib import Path
from typing import Any

import torch

from supple.engine.kinds import Fields, as_json, find_kind, preset_of, settings_with
from supple.engine.loop import Warn
from supple.engine.runs import open_run, other_versions, prepare
from supple.engine.settings import RunSettings, Seeds
from supple.engine.spec import Labels, RunSpec
from supple.engine.user_code import plugins
from supple.registry import schema
from supple.registry.errors import RunError, UsageError
from supple.registry.messages import summary
from supple.registry.schema import Positive

from .comparisons import folder as comparisons
from .queue import workers
from .queue.queue import Queue
from .results import Results, load
from .sweeps import sweep
from .sweeps.space import Space
from .sweeps.study import Reference, Study

Step = Callable[[int], None]
Texts = tuple[str, ...]


def train(
    kind: str,
    settings: Fields | RunSettings | None = None,
    hooks: Sequence[str] | str = (),
    *,
    out: str | Path,
    preset: str | None = None,
    plugin: str | Sequence[str] = (),
    progress: Step = lambda step: None,
    warn: Warn = print,
) -> Results:
    """Train one run in this process, and return its results.

        results = train("ppo", {"env": "CartPole-v1", "steps": 50_000}, hooks=["fire@0.5"], out="runs/a")
        results.episodes["return"].tail(100).mean()

    Args:
        kind: The kind of run (see `supple list kinds`).
        settings: Values of settings by name, or the kind's settings dataclass. Names are those of the command-line
            options with underscores. Whole numbers may be written as floats, such as 1e6.
        hooks: Texts of hooks, or one text.
        out: The run directory, which must be new or empty.
        preset: Name of a preset or, for `vision`, of a benchmark. `settings` override its values.
        plugin: Plug-ins with what the run needs: one or several Python files or packages.
        progress: Called with the current step.
        warn: Called with lines for the user.

    Raises:
        UsageError: The run cannot work; nothing was written.
        RunError: Training cannot continue. `resume` continues the run from its last checkpoint.
        Exception: What a plug-in or an environment raised, with notes of what was called and at which step.
    """
    plugins.load_here(plugin)
    row, fields = find_kind(kind), _read_settings(kind, preset, settings)
    given = None if isinstance(settings, RunSettings) else preset_of(row, preset)
    made = settings_with(row, given, fields)
    if hooks:
        made = replace(made, hook=_read(hooks, Texts, "hooks"))
    with _keep_threads():
        labels = Labels(leads=given.leads if given else "")
        spec = RunSpec(row.name, made, labels, command=f"supple.train({kind!r}, …)")
        prepare(spec, Path(out), warn).train(progress)
    return load(out)


def compare(
    kind: str,
    settings: Fields | RunSettings | None = None,
    arms: Sequence[str] | str = (),
    *,
    out: str | Path,
    preset: str | None = None,
    seeds: Sequence[int] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    reference: str | None = None,
    fork_at: float | None = None,
    fork_at_task: int | None = None,
    leads: str | None = None,
    jobs: int = 1,
    plugin: str | Sequence[str] = (),
    warn: Warn = print,
) -> Results:
    """Train every arm with every seed, from a common trunk per seed if arms are forked, and return the results.

        results = compare("ppo", preset="gym-control-small", seeds=range(3), out="runs/b")
        results.metrics.groupby("arm")["agent/weight_norm"].last()

    Args:
        kind: As in `train`.
        settings: As in `train`.
        arms: Each is a hook, several hooks joined by " + ", or "none". One arm may be a text. By default, those of the
            preset or the kind.
        out: The folder of the comparison, which must be new or empty.
        preset: As in `train`.
        seeds: By default, those of the preset, or 0. Kinds that train a stack of seeds have them as a setting too.
        vary: Values of settings to vary, by name. Every arm is trained with every combination of them.
        reference: "fresh" for an agent that begins each task with new weights, memory and optimizer, or "none". By
            default, that of the preset.
        fork_at: The fork point as a fraction of the steps; 0 for no trunk. By default, that of the preset, or where the
            hook that acts earliest can act first.
        fork_at_task: The task at whose beginning to fork, instead of `fork_at`.
        leads: The measure that leads the report, such as "final return". By default, that of the preset or the kind.
        jobs: Number of simultaneous runs. With more than 1, they are trained in processes that import the calling
            script, which then needs `if __name__ == "__main__":`.
        plugin: As in `train`.
        warn: As in `train`.

    Raises:
        UsageError: The comparison cannot work; nothing was written.
        RunError: Runs failed. All others have been trained to their end.
    """
    plugins.load_here(plugin)
    study = Study(
        "",
        kind,
        preset,
        _read_settings(kind, preset, settings),
        _read(arms, Texts, "arms"),
        _read(seeds, Seeds | None, "seeds"),
        _read(reference, Reference | None, "reference"),
        _read(fork_at, float | None, "fork_at"),
        _read(fork_at_task, int | None, "fork_at_task"),
        _read(leads, str | None, "leads"),
        Space({name: _read(values, list[Any], f"vary: {name}") for name, values in (vary or {}).items()}),
    )
    path, jobs = Path(out), _read(jobs, Positive[int], "jobs")
    with _keep_threads():
        comparison = comparisons.create(path, study.comparison(f"supple.compare({kind!r}, …)"), jobs, warn)
        _finish_queue(path, comparison.queue(path), jobs, warn)
    return load(path)


def resume(
    path: str | Path,
    *,
    jobs: int = 1,
    retry_failed: bool = False,
    plugin: str | Sequence[str] = (),
    progress: Step = lambda step: None,
    warn: Warn = print,
) -> Results:
    """Continue a run, a comparison or a sweep from its newest checkpoints to its end, and return its results.

    Args:
        path: The folder.
        jobs: As in `compare`.
        retry_failed: Whether to train failed runs of a comparison or a sweep again, from their last checkpoints. Their
            plug-ins may have been mended. By default, they are skipped.
        plugin: The plug-ins with which it was started.
        progress, warn: As in `train`.

    Raises:
        UsageError: `retry_failed` is given for a run, which `resume` tries again in any case, or a plug-in is missing.
        RunError: As in `train` and `compare`.
    """
    plugins.load_here(plugin)
    path = Path(path)
    with _keep_threads():
        if (path / sweep.FILE).is_file() or (path / comparisons.FILE).is_file():
            if retry_failed:
                sweep.retry_failed(path)
            queue = sweep.open_queue(path, jobs, warn)
            if line := queue.other_versions(path):
                warn(line)
            _finish_queue(path, queue, jobs, warn)
        else:
            if retry_failed:
                raise UsageError(f"retry_failed is for comparisons and sweeps, but {path} is a run")
            if line := other_versions(path):
                warn(line)
            open_run(path, warn).train(progress)
    return load(path)


def _read_settings(name: str, preset: str | None, settings: Fields | RunSettings | None) -> Fields:
    """Return the settings that were given, by name. Raises UsageError."""
    if not isinstance(settings, RunSettings):
        if not isinstance(settings, Mapping | None):
            raise UsageError(f"settings must be a dictionary such as {{'steps': 50_000}}, not {summary(settings)}")
        given = settings or {}
        return {n: plugins.load_function(v) if n == "encoder" and isfunction(v) else v for n, v in given.items()}
    if not isinstance(settings, of_kind := find_kind(name).settings_class()):
        raise UsageError(f"settings of {name} must be {of_kind.__name__}, not {type(settings).__name__}")
    if preset:
        raise UsageError("with a preset, settings must be a dictionary of the values that differ from it")
    return vars(settings)


def _read(value: Any, wanted: Any, name: str) -> Any:
    """Return an argument converted to the type `wanted`; one text may stand for a list. Raises UsageError."""
    if wanted is Texts and isinstance(value, str):
        value = (value,)
    if isinstance(value, Iterable) and not isinstance(value, str):
        value = list(value)
    try:
        value = schema.convert(as_json(value), wanted, name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    for problem in schema.beyond(value, wanted):
        raise UsageError(f"{name} {problem}")
    return value


def _finish_queue(path: Path, queue: Queue, jobs: int, warn: Warn) -> None:
    """Train all runs that have not ended, and those that a search adds. Raises RunError at the end if runs failed."""

    def train_left(queue: Queue) -> None:
        if jobs > 1:
            workers.train_queue(queue, jobs, lambda run, step, end: None, warn)
        else:
            queue.work_off(lambda run, held: run.train(held, lambda step, end: None, warn))

    queue = sweep.finish(path, queue, train_left, jobs, warn)
    if failed := queue.failed:
        reason = failed[0].outcome.get("reason")
        raise RunError(f"{len(failed)} of {len(queue)} runs failed, the first in {failed[0].folder}: {reason}")


@contextmanager
def _keep_threads() -> Iterator[None]:
    """Restore PyTorch's number of threads afterwards, since a run sets its own."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
