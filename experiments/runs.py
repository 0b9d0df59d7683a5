"""From settings to a run on the disk, and from a run on the disk to its end, for every kind of run."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..interventions import When
from . import distributed, files, plugins, typed
from .claim import PATIENCE, Claim, claim
from .denormals import flushing_denormals
from .divergence import first_not_finite
from .errors import DiskError, Diverged, RunError, UsageError
from .hooks import Asked, HookDriver
from .kinds import Kind, find_kind
from .loop import Loop, Progress, Warn
from .machine import Allocations
from .read_hooks import read_hooks
from .rundir import RunDirectory
from .settings import RunSettings
from .trackers import tracking
from .work import Work

EXPORT = "model"  # folder of the model that a finished run leaves, where its kind exports one


def build(kind: Kind, settings: RunSettings, warn: Warn = print) -> Work:
    """Return what these settings train; what they left to be decided is decided in them. Raises UsageError for what
    cannot work, RunError where something is not installed."""
    settings.check()
    if distributed.world() > 1 and not kind.shared:
        raise UsageError(f"supple train {kind.name} trains in one process: start it without torchrun")
    if note := settings.resolve():
        warn(note)
    torch.set_num_threads(settings.threads)
    try:
        with Allocations(vars(settings)):
            work = kind.builder()(settings)
        work.check_memory(1)
    except ImportError as error:
        raise RunError(str(error)) from error
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error
    if settings.keep_best and work.no_best:
        raise UsageError(f"--keep-best: {work.no_best}")
    return work


def configuration(kind: Kind, settings: RunSettings, work: Work, command: str) -> dict[str, Any]:
    """Return the contents of config.json, of a run that is no part of a comparison: it begins at step 0
    (`start_step`), goes on to its end (`stop_step`) and is no arm. command: what was typed."""
    return {
        "algorithm": kind.name,
        "seed": settings.members[0],
        "total_steps": work.tasks[-1].end,
        "start_step": 0,
        "stop_step": None,
        "hooks": [*work.hooks, *settings.hook],
        "arm": None,
        "command": command,
        "data": work.sources,
        "settings": plain(settings),
        "tasks": [asdict(task) for task in work.tasks],
        **plugins.entry(),
    }


def plain(settings: RunSettings) -> dict[str, Any]:
    """Return the settings as JSON has them; the path of a folder is whole, so that a run goes on from anywhere."""
    return {
        name: str(value.expanduser().absolute()) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
    }


def settings_of(config: Mapping[str, Any], file: Path) -> tuple[Kind, RunSettings]:
    """Return the kind and the settings that the contents of a file describe.

    Raises UsageError for other plug-ins than it names, RunError if this version cannot read it."""
    plugins.require(config.get("plugins", {}), file.parent)
    try:
        kind = find_kind(config["algorithm"])
        settings: RunSettings = typed.fitted(config["settings"], kind.settings_class(), "settings")
        return kind, settings
    except ValueError as error:
        raise RunError(f"{file} was edited, or written by another version of supple: {error}") from error


def drive(work: Work, hooks: Sequence[str], start: int = 0, run: RunDirectory | None = None) -> HookDriver:
    """Return the driver of a run's hooks, those of its kind before the user's. Raises UsageError for those that have
    no place in it."""
    log, s = run.event if run else lambda **_: None, work.settings
    texts = (*work.hooks, *hooks)
    asked = Asked(s.curvature, s.trainability_every > 0, work.statistics)
    planned = run.config.get("planned_steps") if run else None
    driver = read_hooks(texts, work.tasks, work.learners, start, log, asked, planned)
    for hook in driver.hooks:
        if isinstance(hook.schedule, When) and len(work.seeds) > 1:
            raise UsageError(
                f"{'--arm' if start else '--hook'} {hook.text}: one seed meets a condition and another does not; "
                f"with several --seeds as one stack it would be that of their mean: train one seed at a time"
            )
    return driver


def create(path: Path, kind: str, settings: RunSettings, command: str, warn: Warn = print) -> None:
    """Check everything that can be checked before training, then make the run directory. Raises UsageError."""
    row = find_kind(kind)
    settings.check_single()
    with flushing_denormals(settings.threads):
        work = build(row, settings, warn)
        try:
            drive(work, settings.hook)
            RunDirectory.create(path, configuration(row, settings, work, command))
        finally:
            work.close()


def train(path: Path, progress: Progress, warn: Warn, held: Claim | None = None) -> None:
    """Bring the run in `path` to its end, from wherever it stands. held: this process's claim on it, if it has one.

    Raises RunError if it cannot go on, UsageError for other plug-ins than it was begun with, Claimed if another process
    is at work on it."""
    config = RunDirectory.open(path).config
    kind, settings = settings_of(config, path / "config.json")
    try:
        with ExitStack() as stack:
            if held is None and distributed.first():
                held = stack.enter_context(claim(path, PATIENCE))
            stack.enter_context(flushing_denormals(settings.threads, warn))
            stack.enter_context(distributed.processes(getattr(settings, "device", "cpu")))
            run = stack.enter_context(distributed.open_run(path))
            run.claim = held
            work = build(kind, settings, warn)
            stack.callback(work.close)
            _go_on(run, work, progress, warn)
            if run.end == work.tasks[-1].end and distributed.first():
                work.export(path / EXPORT)
    except files.NotPlain as error:
        raise RunError(f"{error.filename}: {error.strerror}") from error
    except OSError as error:  # a full disk, say
        where = error.filename or path
        raise DiskError(
            f"{where}: {error.strerror or error}; `supple resume {path}` goes on from the last checkpoint"
        ) from error


def _go_on(run: RunDirectory, work: Work, progress: Progress, warn: Warn) -> None:
    _check(run, work)
    config, start = run.config, run.config["start_step"]
    hooks = drive(work, work.settings.hook, start, run)
    try:
        with tracking(run, work.settings.log_to, warn) as covered:
            loop = Loop(run, work, hooks, start, run.end, warn, covered)
            loop.train(progress)
    except Diverged as error:
        arm = f", arm {config['arm']}" if config["arm"] else ""
        seeds = ", ".join(map(str, work.settings.members))
        raise Diverged(
            f"{run.path} ({config['algorithm']}{arm}, seed {seeds}): training diverged by step {loop.step:,}: {error}; "
            f"{first_not_finite(work.learners)}; a smaller --learning-rate may help; the last checkpoint is kept"
        ) from None


def _check(run: RunDirectory, work: Work) -> None:
    """Raise RunError where config.json says something else than what its settings come to here."""
    file, config = run.path / "config.json", run.config
    if [asdict(task) for task in work.tasks] != config["tasks"] or work.sources != config["data"]:
        raise RunError(f"{run.path} was begun with other data: {config['data']}; here are {work.sources}")
    total, start = work.tasks[-1].end, config["start_step"]
    for name, value in {"seed": work.settings.members[0], "total_steps": total}.items():
        if config[name] != value:
            raise RunError(f"{file}: {name} is {config[name]}, but its settings make it {value}")
    if not 0 <= start < run.end <= total:
        raise RunError(f"{file}: a run of {total} steps cannot begin at step {start} and end at {run.end}")
