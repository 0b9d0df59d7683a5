"""Create a run directory from settings, and train the run in a run directory, for every kind of run."""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..interventions import When
from ..registry import quoted, schema, tell
from ..registry.errors import DiskError, Diverged, RunError, UsageError
from .divergence import first_not_finite
from .hooks.driver import ExtraMeasurements, HookDriver
from .hooks.texts import read_hooks
from .kinds import Kind, find_kind
from .loop import Loop, Progress, Warn
from .machine import distributed, torchrun
from .machine.denormals import flushing_denormals
from .machine.resources import Allocations
from .settings import RunSettings
from .storage import files, signed_json, versions
from .storage.checkpoint import newest_step
from .storage.claim import PATIENCE, Claim, claim
from .storage.run_directory import RunDirectory, open_run
from .threads import fastest
from .trackers import tracking
from .user_code import plugins
from .user_code.blame import TRACEBACK, blaming
from .work import Work

EXPORT = "model"  # folder for the exported model of a finished run, if its kind exports one


def build(kind: Kind, settings: RunSettings, warn: Warn = tell) -> Work:
    """Return the work for these settings. Values such as "auto" are replaced by definite ones in `settings`.

    Raises:
        UsageError: The settings cannot work.
        RunError: A package is not installed.
    """
    settings.check()
    if distributed.world() > 1 and not kind.shared:
        raise UsageError(f"supple train {kind.name} runs in one process: start it without torchrun")
    if note := settings.resolve():
        warn(note)
    if settings.threads == "auto":
        settings.threads, note = fastest(kind, settings, _create_and_train)
        warn(note)
    torch.set_num_threads(settings.torch_threads)
    try:
        with Allocations(vars(settings)):
            work = kind.builder()(settings)
        settings.fit(work.tasks[-1].end)
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
    """Return the contents of config.json for a run that is not part of a comparison.

    Such a run begins at step 0 (`start_step`), continues to its end (`stop_step` is None) and has no `arm`. `command`
    is the command line as typed.
    """
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
        **plugins.config_entry(),
    }


def plain(settings: RunSettings) -> dict[str, Any]:
    """Return the settings as JSON values. Paths are made absolute, so that a run can be resumed from any folder."""
    return {
        name: str(value.expanduser().absolute()) if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
    }


def settings_of(config: Mapping[str, Any], file: Path, more_plugins: bool = False) -> tuple[Kind, RunSettings]:
    """Return the kind and the settings in the contents of a config.json or comparison.json.

    more_plugins: Allow plug-ins that the file does not name, for uses that do not train.

    Raises:
        UsageError: The loaded plug-ins are not those that the file names.
        RunError: This version of supple cannot read the file.
    """
    plugins.require(config.get("plugins", {}), file.parent, more_plugins)
    try:
        kind = find_kind(config["algorithm"])
        settings: RunSettings = schema.convert(config["settings"], kind.settings_class(), "settings")
        return kind, settings
    except ValueError as error:
        raise RunError(f"{file} was edited or was written by another version of supple: {error}") from error


def drive(work: Work, hooks: Sequence[str], start: int = 0, run: RunDirectory | None = None) -> HookDriver:
    """Return the driver of a run's hooks, its kind's first. Raises UsageError if one cannot be used in this run."""
    log, s = run.event if run else lambda **_: None, work.settings
    texts = (*work.hooks, *hooks)
    extras = ExtraMeasurements(s.curvature, s.trainability_every > 0, work.statistics)
    planned = run.config.get("planned_steps") if run else None
    driver = read_hooks(texts, work.tasks, work.learners, start, log, extras, planned)
    for hook in driver.hooks:
        if isinstance(hook.schedule, When) and len(work.seeds) > 1:
            raise UsageError(
                f"{'--arm' if start else '--hook'} {hook.text}: a condition (when:) is not possible if several --seeds "
                f"are trained as one stack, because not all seeds would meet it at the same step; train one seed at "
                f"a time"
            )
    return driver


def create(path: Path, kind: str, settings: RunSettings, command: str, warn: Warn = tell) -> None:
    """Check everything that can be checked before training, then make the run directory. Raises UsageError."""
    row = find_kind(kind)
    signed_json.require_outside(path)
    settings.check_single()
    with blaming(), flushing_denormals(settings.torch_threads):
        with staying():
            work = build(row, settings, warn)
        try:
            torchrun.require_whole()
            with staying():
                drive(work, settings.hook)
            RunDirectory.create(path, configuration(row, settings, work, command))
        finally:
            work.close()


def _create_and_train(path: Path, kind: str, settings: RunSettings, progress: Progress) -> None:
    """Make a run and train it, without a word."""
    create(path, kind, settings, "", lambda line: None)
    train(path, progress, lambda line: None)


@contextmanager
def staying() -> Iterator[None]:
    """Return to the working directory after this block, in which code of users, such as environments, may change it."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            os.chdir(here)


class _CallerFailed(Exception):
    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _apart(call: Callable[..., None]) -> Callable[..., None]:
    """Return a function of the caller, such as a display, whose OSError is not taken for one of the run's disk."""

    def called(*values: Any) -> None:
        try:
            call(*values)
        except OSError as error:
            raise _CallerFailed(error) from error

    return called


@staying()
def train(path: Path, progress: Progress, warn: Warn, held: Claim | None = None) -> None:
    """Train the run in `path` to its end, from its newest checkpoint or from its beginning.

    `held` is this process's claim on the run, if it has one already.

    Raises:
        RunError: The run cannot continue. It is PluginFailed if a plug-in is to blame.
        UsageError: The loaded plug-ins are not those that the run was started with.
        Claimed: Another process is training this run.
    """
    path = path.absolute()  # an environment may change the working directory
    files.require_unlinked(path)
    config = RunDirectory.open(path).config
    kind, settings = settings_of(config, path / "config.json")
    try:
        with ExitStack() as stack:
            if held is None and distributed.is_first():
                held = stack.enter_context(claim(path, PATIENCE))
            if held:
                stack.enter_context(held.explaining())
            stack.enter_context(flushing_denormals(settings.torch_threads, warn))
            stack.enter_context(distributed.join_processes(getattr(settings, "device", "cpu")))
            run = stack.enter_context(open_run(path))
            run.claim = held
            stack.enter_context(blaming(folder=path, writing=run.writing))
            with run.writing():
                (path / TRACEBACK).unlink(missing_ok=True)
                if distributed.is_first() and newest_step(run.checkpoints) < run.end:
                    versions.note_later(path, run.config)
            warn = _apart(warn)
            work = build(kind, settings, warn)
            stack.callback(work.close)
            _go_on(run, work, _apart(progress), warn)
            if run.end == work.tasks[-1].end and distributed.is_first():
                _export(run, work)
    except _CallerFailed as error:
        raise error.reason from None
    except files.NotPlain:
        raise
    except OSError as error:  # such as a full disk
        where = error.filename or path
        raise DiskError(
            f"{where}: {error.strerror or error}; `supple resume {quoted(path)}` continues from the last checkpoint"
        ) from error


def other_versions(path: Path) -> str:
    """Return a line if the run in `path` will continue under other versions than it was trained with, or ""."""
    run = RunDirectory.open(path)
    return versions.remark(path, [path]) if newest_step(run.checkpoints) < run.end else ""


def _go_on(run: RunDirectory, work: Work, progress: Progress, warn: Warn) -> None:
    _check(run, work)
    config, start = run.config, run.config["start_step"]
    hooks = drive(work, work.settings.hook, start, run)
    try:
        with tracking(run, work.settings.log_to, warn) as covered:
            loop = Loop(run, work, hooks, start, run.end, warn, covered)
            with blaming(lambda: loop.step, run.path, run.writing):
                loop.train(progress)
    except Diverged as error:
        arm = f", arm {config['arm']}" if config["arm"] else ""
        seeds = ", ".join(map(str, work.settings.members))
        others = f"; plug-in {plugins.describe_all()} takes part" if plugins.loaded() else ""
        raise Diverged(
            f"{run.path} ({config['algorithm']}{arm}, seed {seeds}): training diverged by step {loop.step:,}: {error}; "
            f"{first_not_finite(work.learners)}{hooks.suspects or others}; a smaller --learning-rate may help; "
            f"the last checkpoint is kept"
        ) from None


def _export(run: RunDirectory, work: Work) -> None:
    """Write the trained model, if the kind exports one, under a new name that this process then changes."""
    target = run.path / EXPORT
    with run.writing():
        for left in files.leftovers(run.path, f"{EXPORT}|tmp-{EXPORT}-[0-9a-f]+"):  # by a process that was killed here
            files.remove(left, run.path)
    temporary = target.with_name(f"tmp-{EXPORT}-{uuid.uuid4().hex[:8]}")
    try:
        work.export(temporary)
        if temporary.exists():
            files.move_into_place(temporary, target, run.writing)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _check(run: RunDirectory, work: Work) -> None:
    """Raise RunError if config.json does not agree with what its settings result in on this machine."""
    file, config = run.path / "config.json", run.config
    if [asdict(task) for task in work.tasks] != config["tasks"] or work.sources != config["data"]:
        raise RunError(f"{run.path} was started with other data: {config['data']}; the data here are {work.sources}")
    total, start = work.tasks[-1].end, config["start_step"]
    for name, value in {"seed": work.settings.members[0], "total_steps": total}.items():
        if config[name] != value:
            raise RunError(f"{file}: {name} is {config[name]}, but its settings give {value}")
    if not 0 <= start < run.end <= total:
        raise RunError(f"{file}: a run of {total} steps cannot begin at step {start} and end at {run.end}")
