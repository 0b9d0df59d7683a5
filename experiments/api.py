"""Functions that train whole runs and comparisons, for scripts and notebooks."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from supple.engine.kinds import Fields, Kind, Preset, find_kind, preset_of, settings_with, value_of
from supple.engine.loop import Warn
from supple.engine.runs import open_run, other_versions, prepare
from supple.engine.settings import RunSettings, Seeds
from supple.engine.spec import Labels, RunSpec
from supple.registry.errors import RunError, UsageError

from .comparisons import folder as comparisons
from .comparisons.asked import choose_seeds, make_comparison
from .comparisons.grid import make_points, vary_of
from .queue import workers
from .queue.queue import Queue
from .results import Results, load
from .sweeps import sweep

Step = Callable[[int], None]
OPTION = re.compile(r"--([a-z][a-z-]+)")
ARGUMENTS = {"hook": "hooks", "arm": "arms"}  # option → argument with another name


def train(
    kind: str,
    settings: Fields | RunSettings | None = None,
    hooks: Sequence[str] | str = (),
    *,
    out: str | Path,
    preset: str | None = None,
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
        progress: Called with the current step.
        warn: Called with lines for the user.

    Raises:
        UsageError: The run cannot work; nothing was written.
        RunError: Training cannot continue. `resume` continues the run from its last checkpoint.
        Exception: What a plug-in or an environment raised, with notes of what was called and at which step.
    """
    with _naming_arguments():
        row, given, made = _read_settings(kind, preset, settings)
        if texts := _read_texts(hooks, "hooks", "fire@0.5"):
            made = replace(made, hook=texts)
        path = _read_path(out)
    with _naming_arguments(), _keep_threads():
        labels = Labels(leads=given.leads if given else "")
        spec = RunSpec(row.name, made, labels, command=f"supple.experiments.train({kind!r}, …)")
        prepare(spec, path, warn).train(progress)
    return load(path)


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
        warn: As in `train`.

    Raises:
        UsageError: The comparison cannot work; nothing was written.
        RunError: Runs failed. All others have been trained to their end.
    """
    with _naming_arguments():
        row, given, made = _read_settings(kind, preset, settings)
        if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
            raise UsageError(f"jobs must be a number of 1 or more, got {jobs!r}")
        numbers = None if seeds is None else _read_seeds(seeds)
        varied = {name: _read_values(row, name, values) for name, values in (vary or {}).items()}
        texts = _read_texts(arms, "arms", "fire@0.5") or (given.arms if given else None) or row.arms
        path = _read_path(out)
    with _naming_arguments(), _keep_threads():
        points = make_points(texts, varied or vary_of(given, made))
        comparison = make_comparison(
            row,
            given,
            made,
            choose_seeds(made, numbers, given),
            points,
            reference,
            fork_at,
            fork_at_task,
            leads,
            f"supple.experiments.compare({kind!r}, …)",
        )
        comparison = comparisons.create(path, comparison, jobs, warn)
        _train_queue(path, comparison.queue(path), jobs, warn)
    return load(path)


def resume(path: str | Path, *, jobs: int = 1, progress: Step = lambda step: None, warn: Warn = print) -> Results:
    """Continue a run, a comparison or a sweep from its newest checkpoints to its end, and return its results.

    In a comparison or a sweep, runs that have failed are not tried again. Arguments and exceptions are as in `train`
    and `compare`.
    """
    path = _read_path(path)
    with _naming_arguments(), _keep_threads():
        if (path / sweep.FILE).is_file() or (path / comparisons.FILE).is_file():
            queue = sweep.open_queue(path, jobs, warn)
            _warn_if(queue.other_versions(path), warn)
            _train_queue(path, queue, jobs, warn)
        else:
            _warn_if(other_versions(path), warn)
            open_run(path, warn).train(progress)
    return load(path)


def _read_settings(
    name: str, preset: str | None, settings: Fields | RunSettings | None
) -> tuple[Kind, Preset | None, RunSettings]:
    """Return the kind, the preset (or None) and the settings. Raises UsageError."""
    if not isinstance(name, str):
        raise UsageError(f"kind must be the name of a kind of run such as 'ppo', not {name!r}")
    kind = find_kind(name)
    if isinstance(settings, RunSettings):
        if not isinstance(settings, of_kind := kind.settings_class()):
            raise UsageError(f"settings of {kind.name} must be {of_kind.__name__}, not {type(settings).__name__}")
        if preset:
            raise UsageError("with a preset, settings must be a dictionary of the values that differ from it")
        values = {field.name: getattr(settings, field.name) for field in fields(of_kind)}
        return kind, None, settings_with(kind, None, values)
    if settings is not None and not isinstance(settings, Mapping):
        raise UsageError(f"settings must be a dictionary such as {{'steps': 50_000}}, not {type(settings).__name__}")
    row = preset_of(kind, preset)
    return kind, row, settings_with(kind, row, settings or {})


def _read_texts(texts: Sequence[str] | str, argument: str, example: str) -> tuple[str, ...]:
    """Return the texts of hooks or arms, of which there may be one alone. Raises UsageError."""
    several = (texts,) if isinstance(texts, str) else texts
    if not isinstance(several, Sequence) or not all(isinstance(text, str) for text in several):
        raise UsageError(f"{argument} must be a text such as {example!r} or a list of texts, got {texts!r}")
    return tuple(several)


def _read_seeds(seeds: Sequence[int]) -> Seeds:
    """Return the seeds. Raises UsageError."""
    try:
        return tuple(operator.index(seed) for seed in seeds)
    except TypeError:
        raise UsageError(f"seeds must be a list of numbers such as range(3), got {seeds!r}") from None


def _read_values(kind: Kind, name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of a setting that varies. Raises UsageError."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"vary: {name} must have a list of values, got {values!r}")
    return tuple(value_of(kind, name, value) for value in values)


def _read_path(out: str | Path) -> Path:
    """Return the path of a folder. Raises UsageError."""
    if not isinstance(out, str | Path):
        raise UsageError(f"out must be the path of a folder, got {out!r}")
    return Path(out)


@contextmanager
def _naming_arguments() -> Iterator[None]:
    """Name arguments as in Python in errors, `fork_at` for `--fork-at`, but not inside quoted commands."""
    try:
        yield
    except UsageError as error:
        parts = str(error).split("`")
        parts[::2] = [
            OPTION.sub(lambda option: ARGUMENTS.get(option[1], option[1].replace("-", "_")), part)
            for part in parts[::2]
        ]
        if (text := "`".join(parts)) == str(error):
            raise
        raise UsageError(text) from error


def _train_queue(path: Path, queue: Queue, processes: int, warn: Warn) -> None:
    """Train all runs that have not ended, and those that a search adds. Raises RunError at the end if runs failed."""
    while queue.left:
        if processes > 1:
            workers.train_queue(queue, processes, lambda run, step, end: None, warn)
        else:
            queue.work_off(lambda run, held: run.train(held, lambda step, end: None, warn))
        queue = sweep.open_queue(path, processes, warn)
    if failed := queue.failed:
        reason = (failed[0].outcome or {}).get("reason")
        raise RunError(f"{len(failed)} of {len(queue)} runs failed, the first in {failed[0].folder}: {reason}")


def _warn_if(line: str, warn: Warn) -> None:
    if line:
        warn(line)


@contextmanager
def _keep_threads() -> Iterator[None]:
    """Restore PyTorch's number of threads afterwards, since a run sets its own."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
