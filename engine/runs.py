"""Runs: checked and written to a folder by `prepare`, or opened by `open_run`, and trained, for every kind of run."""

import json
import shutil
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import torch

from supple.registry import owner_of
from supple.registry.errors import DiskError, Diverged, RunError, UsageError, is_of_user, is_out_of_memory

from .divergence import Divergence, find_not_finite, in_words
from .hooks.driver import HookDriver
from .hooks.event import ExtraMeasurements
from .hooks.parsing import parse_hooks, read_hooks
from .kinds import Kind
from .loop import Loop, Progress, Warn
from .machine import distributed
from .machine.allocator import keep_freed_memory
from .machine.denormals import flushing_denormals
from .settings import RunSettings
from .spec import TRACEBACK, Resolved, RunSpec, Start, note_versions, read_spec, start_run, to_json
from .storage import checkpoint, files, signed_json, versions
from .storage.checkpoint import newest_step
from .storage.lock import PATIENCE, Lock
from .storage.run_directory import CHECKPOINTS, RunDirectory
from .threads import fastest
from .trackers import tracking
from .user_code import plugins
from .work import Work

EXPORT = "model"  # folder for the exported model of a finished run, if its kind exports one


def build(kind: Kind, settings: RunSettings, warn: Warn = print) -> Work:
    """Return the work for these settings. In its own settings, values such as "auto" are replaced by definite ones.

    Raises:
        UsageError: The settings cannot work.
        RunError: A package is not installed.
    """
    settings = replace(settings)
    settings.check()
    if distributed.world() > 1 and not kind.shared:
        raise UsageError(f"supple train {kind.name} runs in one process: start it without torchrun")
    notes = [settings.resolve()]
    if settings.threads == "auto":
        settings.threads, note = fastest(kind, settings, _train_briefly)
        notes.append(note)
    torch.set_num_threads(settings.torch_threads)
    try:
        work = kind.builder()(settings)
        _ = work.products  # chosen before a checkpoint changes the networks
        settings.fit(work.tasks[-1].end)
    except ImportError as error:
        raise RunError(str(error)) from error
    except UsageError:
        raise
    except ValueError as error:
        if is_of_user(error):
            raise
        raise UsageError(str(error)) from error
    if settings.keep_best and work.no_best:
        raise UsageError(f"--keep-best: {work.no_best}")
    if (last := max(settings.keep_at, default=0)) > work.tasks[-1].end:
        raise UsageError(f"--keep-at {last}: the run ends at step {work.tasks[-1].end}")
    for line in filter(None, notes):  # not before, so that what cannot work is one line
        warn(line)
    return work


def attach_hooks(work: Work, hooks: Sequence[str], start: int = 0, planned: int | None = None) -> HookDriver:
    """Attach the hooks of a run to its learners, those of its kind first, and return their driver.

    Args:
        work: The work.
        hooks: The texts of the hooks, besides those of its kind.
        start: The step at which the run begins.
        planned: The steps that fractions in schedules refer to; None for those of the run.

    Raises:
        UsageError: A hook cannot be used in this run.
    """
    s = work.settings
    extras = ExtraMeasurements(s.curvature, s.trainability_every > 0, work.statistics)
    texts = (*work.hooks, *hooks)
    driver = read_hooks(texts, work.tasks, work.learners, start, extras=extras, planned=planned, seeds=work.seeds)
    if driver.counts_updates:
        work.updates(start)  # refuses hooks that count updates where nothing else does
    return driver


def prepare(
    spec: RunSpec, path: Path, warn: Warn = print, held: Lock | None = None, trunk: Path | None = None
) -> "Run":
    """Check everything that can be checked before training, make the folder of the run, and return the run.

    The networks that were checked are those that `Run.train` trains.

    Args:
        spec: The specification.
        path: The folder, which must be new or empty.
        warn: Called with lines for the user.
        held: This process's lock on the folder, for a run of a queue.
        trunk: The folder of the run from whose checkpoint it continues, for an arm of a fork.

    Raises:
        UsageError: The run cannot work; nothing was written.
        CheckpointError: The checkpoint of the trunk is missing or damaged.
    """
    kind, settings, start, source = spec.kind_row, spec.settings, spec.start, None
    if held is None:  # it is not one of a queue
        signed_json.require_outside(path)
        settings.check_single()
    with flushing_denormals(settings.torch_threads):
        if trunk:
            settings, step, source = kind.forks().choose_start(settings, trunk, start.step)
            start = Start(step)
        settings.check()
        if tasks := settings.plan_tasks():  # what is wrong with a hook is said before an environment is made
            parse_hooks(settings.hook, tasks, start.step)
        notes: list[str] = []
        work = build(kind, settings, notes.append)
        try:
            hooks = attach_hooks(work, work.settings.hook, start.step)
            for line in notes:  # not before, as in `build`
                warn(line)
            spec = resolved(replace(spec, start=start), work)
            if trunk and source:
                fork(read_spec(trunk), source, path, spec)
            else:
                start_run(path, spec)
        except BaseException:
            work.close()
            raise
    return Run(path, spec, warn, work, hooks)


def fork(trunk: RunSpec, source: Path, target: Path, spec: RunSpec) -> None:
    """Make the run directory `target` of an arm, which begins at `source`, a checkpoint of the trunk.

    The complete state is shared (weights, optimizer, replay memory, generators, statistics) by links to the trunk's
    files, so that a large memory costs nothing. The logs begin empty. config.json is written last: a folder that has
    one is complete.

    Args:
        trunk: The specification of the trunk.
        source: The folder of its checkpoint.
        target: The folder of the arm.
        spec: The specification of the arm.

    Raises:
        CheckpointError: The trunk's checkpoint is missing or damaged.
    """
    checkpoints = target / CHECKPOINTS
    shutil.rmtree(checkpoints, ignore_errors=True)  # left by an attempt that was killed or failed here
    checkpoint.adopt(source, trunk.resolved.identity, checkpoints, spec.resolved.identity, logs={})
    start_run(target, spec, CHECKPOINTS)


def resolved(spec: RunSpec, work: Work) -> RunSpec:
    """Return a specification with the settings of the work that was built from it, and what it results in here."""
    spec, sums = replace(spec, settings=work.settings), plugins.sums()
    tasks = tuple(map(to_json, work.tasks))
    state = [spec.kind, to_json(spec.settings), tasks, spec.start.step, spec.stop]
    record = Resolved(
        hooks=(*work.hooks, *spec.settings.hook),
        tasks=tasks,
        data=work.sources,
        planned=work.tasks[-1].end,
        plugins=sums,
        versions=(versions.here(sums),),
        identity=files.sha256(json.dumps(state).encode()),
    )
    return replace(spec, resolved=record)


def open_run(path: Path, warn: Warn = print) -> "Run":
    """Return the run in a folder.

    Raises:
        RunError: config.json cannot be read.
        UsageError: There is no run, or the loaded plug-ins are not those that it was started with.
    """
    path = path.absolute()  # an environment may change the working directory
    spec = read_spec(path)
    spec.require_plugins(path)
    return Run(path, spec, warn)


def _train_briefly(path: Path, kind: str, settings: RunSettings, progress: Progress) -> None:
    """Make a run and train it, without a word."""
    prepare(RunSpec(kind, settings), path, lambda line: None).train(progress)


class Run:
    """A run in its folder. Make one with `prepare` or `open_run`, and `train` it, or `close` it.

    Attributes:
        path: Its folder, absolute.
        spec: Its specification.
        warn: Called with lines for the user.
        divergences: Seed of a stack that diverged → the step by which it had, and the reason. Known from when training
            begins.
    """

    def __init__(
        self, path: Path, spec: RunSpec, warn: Warn, work: Work | None = None, hooks: HookDriver | None = None
    ) -> None:
        self.path, self.spec, self.warn = path.absolute(), spec, warn
        self.divergences: dict[int, Divergence] = {}
        self._work, self._hooks = work, hooks  # those that were checked, until they are trained

    @property
    def diverged(self) -> dict[str, str]:
        """Seed of a stack that diverged → when and why, in words that follow the seed."""
        return in_words(self.divergences)

    def close(self) -> None:
        """Release the networks that were checked, if they have not been trained."""
        if self._work:
            self._work.close()
        self._work = self._hooks = None

    def train(self, progress: Progress = lambda step: None, held: Lock | None = None) -> None:
        """Train to the end, from the newest checkpoint or from the beginning.

        Args:
            progress: Called with the current step.
            held: This process's lock on the run, if it has one already.

        Raises:
            RunError: The run cannot continue.
            Held: Another process is training this run.
        """
        path, spec, settings = self.path, self.spec, self.spec.settings
        try:
            with ExitStack() as stack:
                stack.callback(self.close)  # if anything fails before the networks that were checked are trained
                if held is None and distributed.is_first():
                    held = stack.enter_context(Lock(path, PATIENCE))
                stack.enter_context(flushing_denormals(settings.torch_threads, self.warn))
                keep_freed_memory()
                if distributed.world() > 1:
                    self.close()  # networks that several processes train are made once these have found each other
                stack.enter_context(distributed.join_processes(getattr(settings, "device", "cpu")))
                folder = stack.enter_context(RunDirectory(path, spec.resolved.identity))
                folder.lock = held
                if distributed.is_first() and newest_step(folder.checkpoints) < spec.end:
                    note_versions(path, spec)
                (path / TRACEBACK).unlink(missing_ok=True)  # last, because it allows a mended plug-in
                work, hooks = self._take_over()
                stack.callback(work.close)
                self._train_work(folder, work, hooks, progress)
                if spec.end == spec.total_steps and distributed.is_first():
                    for left in files.leftovers(path, EXPORT):  # by a process that was killed here
                        shutil.rmtree(left)
                    work.export(path / EXPORT)
        except BrokenPipeError:  # the reader of the output has gone
            raise
        except OSError as error:  # such as a full disk
            if is_of_user(error):
                raise
            where = error.filename or path
            raise DiskError(
                f"{where}: {error.strerror or error}; `{plugins.command('resume', path)}` continues from the last "
                "checkpoint"
            ) from error

    def _take_over(self) -> tuple[Work, HookDriver]:
        """Return the networks that were checked, or build them, and the driver of the hooks."""
        work, hooks, spec = self._work, self._hooks, self.spec
        self._work = self._hooks = None
        if work is None or hooks is None:
            work = build(spec.kind_row, spec.settings, self.warn)
            try:
                data = spec.resolved.data
                if tuple(map(to_json, work.tasks)) != spec.resolved.tasks or work.sources != data:
                    raise RunError(f"{self.path} was started with other data: {data}; the data here are {work.sources}")
                hooks = attach_hooks(work, spec.settings.hook, spec.start.step, spec.resolved.planned)
            except BaseException:
                work.close()
                raise
        return work, hooks

    def _train_work(self, folder: RunDirectory, work: Work, hooks: HookDriver, progress: Progress) -> None:
        """Train a work to its end, and note the seeds of a stack that diverge. Raises Diverged if all do."""
        spec = self.spec
        try:
            with tracking(folder, spec, self.warn) as started:
                loop = Loop(
                    folder, work, hooks, spec.start.step, spec.end, self.warn, started, diverged=self.divergences
                )
                loop.train(progress)
        except Diverged as error:
            arm = f", arm {spec.labels.arm}" if spec.labels.arm else ""
            before = "".join(f"; seed {seed} by step {how['step']:,}" for seed, how in loop.diverged.items())
            arm += f", seed {', '.join(map(str, spec.seeds))}"
            first = find_not_finite(work.learners)
            what = f"the first tensor that is not finite is {first}" if first else "weights and optimizers are finite"
            owners = [(hook.text, owner_of(hook.intervention)) for hook in hooks.hooks]
            suspects = "".join(f"; hook {text} of plug-in {owner} takes part" for text, owner in owners if owner)
            others = f"; plug-in {plugins.describe_all()} takes part" if plugins.loaded() else ""
            raise Diverged(
                f"{self.path} ({spec.kind}{arm}): training diverged by step {loop.step:,}: {error}{before}; "
                f"{what}{suspects or others}; a smaller --learning-rate may help; "
                f"the last checkpoint is kept"
            ) from None
        except Exception as error:
            if is_of_user(error) or not (isinstance(error, (RunError, OSError)) or is_out_of_memory(error)):
                error.add_note(f"after step {loop.step:,}")
                with suppress(OSError):  # this one says more than a full disk
                    files.replace(self.path / TRACEBACK, traceback.format_exc().encode(errors="replace"))
            raise


def other_versions(path: Path) -> str:
    """Return a line if the run in `path` will continue under other versions than it was trained with, or ""."""
    spec = read_spec(path)
    ended = newest_step(path / CHECKPOINTS) >= spec.end
    return "" if ended else versions.remark(path, {"": spec.resolved.versions}, plugins.sums())
