"""Comparisons: one trunk per seed, then every arm from the trunk's identical state, whatever kind of run it is."""

import contextlib
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from .denormals import flushing_denormals
from .errors import RunError, UsageError
from .fork import FRESH, NONE, fork
from .kinds import Kind, find_kind
from .loop import Warn
from .rundir import RunDirectory, read_json, start_folder
from .runs import build, configuration, drive, plain, settings_of, train
from .settings import RunSettings, Seeds
from .work import Task

Watch = Callable[[str, int, int], None]  # label, step, last step
Variant = Mapping[str, Any]  # fields of the settings → values


@dataclass(frozen=True)
class Comparison:
    """The plan of a comparison: `arms` are hook texts joined by ` + ` (or `none`, or `fresh`, the reference), each in
    every one of `variants` of the settings. Where `fork_step` is 0 there is no trunk: arms are trained from the
    beginning."""

    algorithm: str
    settings: RunSettings
    arms: tuple[str, ...]
    seeds: Seeds
    fork_step: int
    command: str
    variants: tuple[Variant, ...] = ({},)

    @property
    def kind(self) -> Kind:
        return find_kind(self.algorithm)

    @property
    def trunks(self) -> tuple[Variant, ...]:
        """The variants that have a trunk of their own."""
        return ({},) if self.kind.forks().shared_trunk(self.settings) else self.variants

    @property
    def first(self) -> RunSettings:
        """The settings of the first run: that of one seed, or of a stack."""
        return first_of(self.settings, self.seeds)

    def hooks_of(self, arm: str) -> tuple[str, ...]:
        return (NONE,) if arm == FRESH else tuple(re.split(r"\s+\+\s+", arm.strip()))

    def own(self, arm: str) -> Variant:
        """Return the fields of the settings that an arm has of its own."""
        return {"hook": self.hooks_of(arm)} | ({"fresh": True} if arm == FRESH else {})


def fork_step_of(
    tasks: tuple[Task, ...], stride: int, fork_at: float | None = None, fork_at_task: int | None = None
) -> int:
    """Return the step of the fork: where task `fork_at_task` begins, or, where that is None, `fork_at` in [0, 1) of the
    planned total, at a step at which runs can part: a multiple of `stride`. At 0 there is no trunk: arms are trained
    from the beginning. Raises UsageError."""
    total = tasks[-1].end
    if fork_at_task is not None:
        if fork_at is not None:
            raise UsageError("--fork-at and --fork-at-task both say where the arms part: give one of them")
        if len(tasks) == 1:
            raise UsageError("the run has one task only, and no switch to fork at: say where in it, --fork-at 0.5")
        if not 0 < fork_at_task < len(tasks):
            raise UsageError(
                f"--fork-at-task must be one of the later tasks, 1 to {len(tasks) - 1}, got {fork_at_task}"
            )
        return tasks[fork_at_task].start
    if fork_at is None or not 0 <= fork_at < 1:
        raise UsageError(f"--fork-at must lie in [0, 1), a fraction of the run, got {fork_at}")
    step = round(fork_at * total / stride) * stride
    if fork_at and not 0 < step < total:
        raise UsageError(f"--fork-at {fork_at} would fork at step {step} of {total}: nothing to compare")
    return step


def first_of(settings: RunSettings, seeds: Seeds) -> RunSettings:
    """Return the settings of the first of the runs that train these seeds, in which all are alike but for the seed."""
    return next(iter(settings.of_seeds(seeds).values()), settings)


def slug(arm: str) -> str:
    """Return a folder name for an arm."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", arm).strip("_")


def folder_of_variant(variant: Variant) -> str:
    """Return a folder name for a variant of the settings, such as `start=best`; empty where nothing varies."""
    return slug(",".join(f"{name}={value}" for name, value in variant.items()))


def folder_of_arm(arm: str, variant: Variant) -> str:
    """Return a folder name for an arm, in a folder for its variant where there are several: `start=best/fire`."""
    return "/".join(filter(None, (folder_of_variant(variant), slug(arm))))


def folder_of(seeds: Seeds) -> str:
    """Return a folder name for the runs of one seed, or of a stack."""
    return "-".join(["seed" if len(seeds) == 1 else "seeds", *map(str, seeds)])


def create(path: Path, comparison: Comparison, jobs: int, warn: Warn = print) -> Comparison:
    """Check the whole comparison, of which `jobs` runs go on at a time, then write comparison.json.

    Returns it with settings in which nothing is left to be decided. Raises UsageError."""
    if comparison.settings.hook:
        raise UsageError("--hook belongs to a single run; in a comparison every --arm names its hooks")
    if not comparison.seeds or len(set(comparison.seeds)) < len(comparison.seeds) or min(comparison.seeds) < 0:
        raise UsageError(f"--seeds must be different numbers of 0 or more, got {comparison.seeds}")
    for arm in comparison.arms:
        if NONE in (parts := comparison.hooks_of(arm)) and len(parts) > 1:
            raise UsageError(f"--arm '{arm}': none goes with no other hook")
    if FRESH in comparison.arms and not hasattr(comparison.settings, FRESH):
        raise UsageError(f"--reference fresh is for agents: {comparison.algorithm} cannot begin anew with every task")
    if len({slug(arm) for arm in comparison.arms}) < len(comparison.arms):
        raise UsageError(f"two arms would share a folder: {', '.join(comparison.arms)}")
    folders = [folder_of_variant(variant) for variant in comparison.variants]
    if twice := [folder for folder in folders if folders.count(folder) > 1]:
        raise UsageError(f"two variants would share a folder: {twice[0]}")
    with flushing_denormals(comparison.settings.threads):
        first = comparison.first
        tasks = _require_memory(comparison, first, jobs, warn)
        own = {name: value for name, value in vars(comparison.settings).items() if name in ("seed", "seeds")}
        comparison = replace(comparison, settings=replace(first, **own))
        for variant in comparison.variants:
            for arm in comparison.arms:
                _check_arm(comparison, arm, variant, tasks, warn)
    start_folder(path, "comparison.json", {**asdict(comparison), "settings": plain(comparison.settings)})
    return comparison


def _check_arm(c: Comparison, arm: str, variant: Variant, tasks: Sequence[Task], warn: Warn) -> None:
    """Raise UsageError for hooks that have no place in such a run. Hooks may change a network: it is built for each."""
    settings = replace(c.first, **{**variant, **c.own(arm)})
    work = build(c.kind, settings, warn)
    if c.fork_step and not c.kind.forks().shared_trunk(c.settings) and work.tasks != tasks:
        work.close()
        words = " ".join(f"{name}={value}" for name, value in variant.items())
        raise UsageError(f"--vary {words} changes the tasks: not all runs would fork at the same place in them")
    try:
        drive(work, settings.hook, c.kind.forks().planned(settings, c.fork_step))
    except UsageError as error:
        raise UsageError(f"--arm: {str(error).removeprefix('--hook: ').removeprefix('--arm: ')}") from None
    finally:
        work.close()


def _require_memory(c: Comparison, first: RunSettings, jobs: int, warn: Warn) -> Sequence[Task]:
    """Raise UsageError where so many runs at a time need more memory than there is; returns the tasks.

    first: the settings of the first run, in which is decided what they leave to be decided."""
    work = build(c.kind, first, warn)
    runs = len(c.settings.of_seeds(c.seeds)) * len(c.arms) * len(c.variants)
    try:
        work.check_memory(min(jobs, runs))
        return work.tasks
    except ValueError as error:
        raise UsageError(str(error)) from error
    finally:
        work.close()


def open_comparison(path: Path, jobs: int, warn: Warn = print) -> Comparison:
    """Read comparison.json back, to go on with `jobs` runs at a time.

    Raises UsageError where there is no comparison, or too little memory for so many runs."""
    file = path / "comparison.json"
    data = read_json(file, f"{path} is no comparison")
    _, settings = settings_of(data, file)
    try:
        lists = {name: tuple(data[name]) for name in ("arms", "seeds")}
        lists["variants"] = tuple(
            {name: tuple(value) if isinstance(value, list) else value for name, value in variant.items()}
            for variant in data.get("variants", [{}])
        )
        comparison = Comparison(**{**data, **lists, "settings": settings})
    except (KeyError, TypeError) as error:
        raise RunError(f"{file} was written by another version of supple: {error}") from error
    with flushing_denormals(settings.threads):
        _require_memory(comparison, comparison.first, jobs, warn)
    return comparison


def run_comparison(path: Path, comparison: Comparison, jobs: int, watch: Watch, warn: Warn) -> None:
    """Bring every trunk and arm to its end, `jobs` at a time; what is finished already is left as it is.

    Arms run in processes of their own with the environment's own threads; their number and their order
    change nothing in any result. Raises RunError if a worker dies.
    """
    context = multiprocessing.get_context("spawn")
    messages, (alive, lifeline) = context.SimpleQueue(), context.Pipe(duplex=False)
    with lifeline, ProcessPoolExecutor(jobs, context, _begin_worker, (messages, alive)) as pool:
        arms = [(arm, variant) for variant in comparison.variants for arm in comparison.arms]
        trunks = [(None, variant) for variant in comparison.trunks]
        pending = {
            _submit(pool, path, comparison, seeds, *each)
            for seeds in comparison.settings.of_seeds(comparison.seeds)
            for each in (trunks if comparison.fork_step else arms)
        }
        try:
            while pending:
                done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                while not messages.empty():
                    kind, *rest = messages.get()
                    warn(*rest) if kind == "warn" else watch(*rest)
                for future in done:
                    seeds, arm, trunk = future.result()
                    if arm is None:  # a trunk is done: its arms can begin
                        own = [each for each in arms if trunk in ({}, each[1])]
                        pending |= {_submit(pool, path, comparison, seeds, *each) for each in own}
        except BaseException as error:
            lifeline.close()  # workers that are still busy exit at once
            if isinstance(error, BrokenProcessPool):
                raise RunError(f"a worker process died; go on with `supple resume {path}`") from None
            raise


def _submit(pool: ProcessPoolExecutor, *work: Any) -> Future[tuple[Seeds, str | None, Variant]]:
    """Hand one run to the pool. Workers begin here, deaf to Ctrl-C: it reaches them too, but the parent decides."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return pool.submit(_run_one, *work)
    finally:
        signal.signal(signal.SIGINT, handler)


_messages: Any = None  # in a worker: the way to its parent


def _begin_worker(messages: Any, alive: Connection) -> None:
    """In a worker, once: keep the way to the parent, and exit when the parent lets go of it or is gone."""
    torch.set_flush_denormal(True)  # before its threads begin: see denormals.py
    global _messages
    _messages = messages

    def watch() -> None:
        with contextlib.suppress(EOFError):
            alive.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_one(
    path: Path, c: Comparison, seeds: Seeds, arm: str | None, variant: Variant
) -> tuple[Seeds, str | None, Variant]:
    """In a worker: the trunk of a seed or of a stack of them (`arm` None), or one arm from its end."""
    folder, settings = path / folder_of(seeds), replace(c.settings.of_seeds(c.seeds)[seeds], **variant)
    trunk = folder / folder_of_variant(variant if variant in c.trunks else {}) / "trunk"
    if arm is None:
        target, end = trunk, c.fork_step
        if not (trunk / "config.json").exists():
            config = _configuration(c, settings, variant)
            RunDirectory.create(trunk, {**config, "stop_step": c.fork_step})
    else:
        target = folder / folder_of_arm(arm, variant)
        end = _begin_arm(c, settings, arm, variant, trunk, target)
    words = ", ".join(f"{name} {value}" for name, value in variant.items())
    label = " · ".join(filter(None, [folder_of(seeds).replace("-", " ", 1), words, arm or "trunk"]))
    train(
        target,
        lambda step: _messages.put(("step", label, step, end)),
        lambda line: _messages.put(("warn", line)),
    )
    return seeds, arm, variant


def _begin_arm(c: Comparison, settings: RunSettings, arm: str, variant: Variant, trunk: Path, target: Path) -> int:
    """Make an arm's folder where there is none yet; returns the step at which it ends."""
    if (target / "config.json").exists():
        return int(RunDirectory.open(target).config["total_steps"])
    own = c.own(arm)
    if not c.fork_step:
        config = {**_configuration(c, replace(settings, **own), variant), "arm": arm}
        RunDirectory.create(target, config)
        return int(config["total_steps"])
    with RunDirectory.open(trunk) as run:
        settings, step, source = c.kind.forks().beginning(settings, run, c.fork_step)
        config = dict(run.config) if variant in c.trunks else {**run.config, **_configuration(c, settings, variant)}
        config |= {"settings": {**config["settings"], **own}, "hooks": [*config["hooks"], *own["hook"]], "arm": arm}
        fork(run, source, target, {**config, "start_step": step, "stop_step": None})
    return int(config["total_steps"])


def _configuration(c: Comparison, settings: RunSettings, variant: Variant) -> dict[str, Any]:
    """Return the contents of config.json of a run in this variant, as one that is no part of a comparison."""
    work = build(c.kind, settings, lambda line: None)  # what there was to say was said when all was checked
    try:
        config = configuration(c.kind, settings, work, c.command)
    finally:
        work.close()
    return {**config, "variant": dict(variant)} if variant else config
