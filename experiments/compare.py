"""Comparisons: one trunk per seed, then every arm from the trunk's identical state; of agents and of classifiers."""

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

from . import checkpoint
from .errors import RunError, UsageError
from .fork import fork
from .read_hooks import Span
from .rundir import RunDirectory, read_json, start_folder

Seeds = tuple[int, ...]
Watch = Callable[[str, int, int], None]  # label, step, last step
Warn = Callable[[str], None]  # takes one line for the user
Variant = Mapping[str, Any]  # fields of the settings → values


def at_the_fork(settings: Any, trunk: RunDirectory, step: int) -> tuple[Any, int, Path]:
    """Where arms begin in a trunk that ends at the fork: (settings, step, the checkpoint's folder)."""
    return settings, step, checkpoint.folder_of(trunk.checkpoints, step)


@dataclass(frozen=True)
class Track:
    """What a comparison asks of a kind of run. Functions are found by name in workers: those at the top
    of a module, or methods of what can be sent there.

    plan: the tasks of settings. stride: steps between which a run can fork.
    check: (settings, hooks of each arm, fork step, warn); decides in the settings what was left to be decided here,
    raises UsageError for what cannot work.
    room: (settings, runs at a time, warn); raises UsageError where they need more memory than there is.
    runs: (settings, seeds) → the settings of each run, by the seeds in it: one alone, or several as a stack.
    configuration: (settings, command) → the contents of config.json. settings_of: from those back to settings.
    train: bring the run in a folder to its end.
    beginning: (settings of an arm, its trunk, fork step) → those settings with nothing left to be decided, the step and
    the trunk's checkpoint that the arm begins at.
    """

    plan: Callable[[Any], Sequence[Span]]
    stride: Callable[[Any], int]
    check: Callable[[Any, Sequence[Sequence[str]], int, Warn], None]
    room: Callable[[Any, int, Warn], None]
    runs: Callable[[Any, Sequence[int]], dict[Seeds, Any]]
    configuration: Callable[[Any, str], dict[str, Any]]
    settings_of: Callable[[Mapping[str, Any], Path], Any]
    train: Callable[[Path, Callable[[int], None], Warn], None]
    beginning: Callable[[Any, RunDirectory, int], tuple[Any, int, Path]] = at_the_fork


@dataclass(frozen=True)
class Comparison:
    """What is compared: `arms` are hook texts joined by ` + ` (or `none`), each in every one of `variants` of the
    settings. Where `fork_step` is 0 there is no trunk: arms are trained from the beginning."""

    algorithm: str
    settings: Any
    arms: tuple[str, ...]
    seeds: Seeds
    fork_step: int
    command: str
    variants: tuple[Variant, ...] = ({},)

    def hooks_of(self, arm: str) -> tuple[str, ...]:
        return tuple(re.split(r"\s+\+\s+", arm.strip()))


def fork_step_of(track: Track, settings: Any, fork_at: float | None, fork_at_task: int | None) -> int:
    """The step of the fork: where task `fork_at_task` begins, or, where that is None, `fork_at` in (0, 1) of the
    planned total, at a step at which runs can part. Raises UsageError."""
    tasks = track.plan(settings)
    total, stride = tasks[-1].end, track.stride(settings)
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
    if fork_at is None or not 0 < fork_at < 1:
        raise UsageError(f"--fork-at must lie between 0 and 1 (a fraction of the run), got {fork_at}")
    step = round(fork_at * total / stride) * stride
    if not 0 < step < total:
        raise UsageError(f"--fork-at {fork_at} would fork at step {step} of {total}: nothing to compare")
    return step


def slug(arm: str) -> str:
    """A folder name for an arm."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", arm).strip("_")


def folder_of_arm(arm: str, variant: Variant) -> str:
    """A folder name for an arm, in a folder for its variant where there are several: `start=best/fire`."""
    words = ",".join(f"{name}={value}" for name, value in variant.items())
    return f"{slug(words)}/{slug(arm)}" if words else slug(arm)


def folder_of(seeds: Seeds) -> str:
    """A folder name for the runs of one seed, or of a stack."""
    return "-".join(["seed" if len(seeds) == 1 else "seeds", *map(str, seeds)])


def create(path: Path, track: Track, comparison: Comparison, jobs: int, warn: Warn = print) -> None:
    """Check the whole comparison, of which `jobs` runs go on at a time, then write comparison.json.

    Raises UsageError."""
    if comparison.settings.hook:
        raise UsageError("--hook belongs to a single run; in a comparison every --arm names its hooks")
    if not comparison.seeds or len(set(comparison.seeds)) < len(comparison.seeds) or min(comparison.seeds) < 0:
        raise UsageError(f"--seeds must be different numbers of 0 or more, got {comparison.seeds}")
    for arm in comparison.arms:
        if "none" in (parts := comparison.hooks_of(arm)) and len(parts) > 1:
            raise UsageError(f"--arm '{arm}': none goes with no other hook")
    if len({slug(arm) for arm in comparison.arms}) < len(comparison.arms):
        raise UsageError(f"two arms would share a folder: {', '.join(comparison.arms)}")
    folders = [folder_of_arm("none", variant) for variant in comparison.variants]
    if twice := [folder for folder in folders if folders.count(folder) > 1]:
        raise UsageError(f"two variants would share a folder: {Path(twice[0]).parent}")
    for variant in comparison.variants:
        hooks = [comparison.hooks_of(arm) for arm in comparison.arms]
        track.check(replace(comparison.settings, **variant), hooks, comparison.fork_step, warn)
    _require_room(track, comparison, jobs, warn)
    settings = track.configuration(comparison.settings, comparison.command)["settings"]
    start_folder(path, "comparison.json", {**asdict(comparison), "settings": settings}, "supple compare")


def _require_room(track: Track, comparison: Comparison, jobs: int, warn: Warn) -> None:
    runs = len(track.runs(comparison.settings, comparison.seeds)) * len(comparison.arms) * len(comparison.variants)
    track.room(comparison.settings, min(jobs, runs), warn)


def open_comparison(path: Path, track_of: Callable[[str], Track], jobs: int, warn: Warn = print) -> Comparison:
    """Read comparison.json back, to go on with `jobs` runs at a time.

    track_of: the track of an algorithm. Raises UsageError where there is no comparison, or no room for so many runs.
    """
    file = path / "comparison.json"
    data = read_json(file, f"{path} is no comparison")
    try:
        track = track_of(data["algorithm"])
        lists = {name: tuple(data[name]) for name in ("arms", "seeds")}
        lists["variants"] = tuple(
            {name: tuple(value) if isinstance(value, list) else value for name, value in variant.items()}
            for variant in data.get("variants", [{}])
        )
        comparison = Comparison(**{**data, **lists, "settings": track.settings_of(data, file)})
    except (KeyError, TypeError) as error:
        raise RunError(f"{file} was written by another version of supple: {error}") from error
    _require_room(track, comparison, jobs, warn)
    return comparison


def run_comparison(path: Path, track: Track, comparison: Comparison, jobs: int, watch: Watch, warn: Warn) -> None:
    """Bring every trunk and arm to its end, `jobs` at a time; what is finished already is left as it is.

    Arms run in processes of their own with the environment's own threads; their number and their order
    change nothing in any result. Raises RunError if a worker dies.
    """
    context = multiprocessing.get_context("spawn")
    messages, (alive, lifeline) = context.SimpleQueue(), context.Pipe(duplex=False)
    with lifeline, ProcessPoolExecutor(jobs, context, _begin_worker, (messages, alive)) as pool:
        runs = track.runs(comparison.settings, comparison.seeds)
        work = [(arm, variant) for variant in comparison.variants for arm in comparison.arms]
        first: list[tuple[str | None, Variant]] = [(None, {})] if comparison.fork_step else [*work]
        pending = {_submit(pool, path, track, comparison, seeds, *each) for seeds in runs for each in first}
        try:
            while pending:
                done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                while not messages.empty():
                    kind, *rest = messages.get()
                    warn(*rest) if kind == "warn" else watch(*rest)
                for future in done:
                    seeds, arm = future.result()
                    if arm is None:  # a trunk is done: its arms can begin
                        pending |= {_submit(pool, path, track, comparison, seeds, *each) for each in work}
        except BaseException as error:
            lifeline.close()  # workers that are still busy exit at once
            if isinstance(error, BrokenProcessPool):
                raise RunError(f"a worker process died; go on with `supple compare --resume {path}`") from None
            raise


def _submit(pool: ProcessPoolExecutor, *work: Any) -> Future[tuple[Seeds, str | None]]:
    """Hand one run to the pool. Workers begin here, deaf to Ctrl-C: it reaches them too, but the parent decides."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return pool.submit(_run_one, *work)
    finally:
        signal.signal(signal.SIGINT, handler)


_messages: Any = None  # in a worker: the way to its parent


def _begin_worker(messages: Any, alive: Connection) -> None:
    """In a worker, once: keep the way to the parent, and exit when the parent lets go of it or is gone."""
    global _messages
    _messages = messages

    def watch() -> None:
        with contextlib.suppress(EOFError):
            alive.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_one(
    path: Path, track: Track, c: Comparison, seeds: Seeds, arm: str | None, variant: Variant
) -> tuple[Seeds, str | None]:
    """In a worker: the trunk of a seed or of a stack of them (`arm` None), or one arm from its end."""
    folder, settings = path / folder_of(seeds), track.runs(c.settings, c.seeds)[seeds]
    trunk = folder / "trunk"
    if arm is None:
        target, end = trunk, c.fork_step
        if not (trunk / "config.json").exists():
            RunDirectory.create(trunk, {**track.configuration(settings, c.command), "stop_step": c.fork_step})
    else:
        target = folder / folder_of_arm(arm, variant)
        end = _begin_arm(track, c, replace(settings, **variant), arm, variant, trunk, target)
    words = ", ".join(f"{name} {value}" for name, value in variant.items())
    label = " · ".join(filter(None, [folder_of(seeds).replace("-", " ", 1), words, arm or "trunk"]))
    track.train(
        target,
        lambda step: _messages.put(("step", label, step, end)),
        lambda line: _messages.put(("warn", line)),
    )
    return seeds, arm


def _begin_arm(
    track: Track, c: Comparison, settings: Any, arm: str, variant: Variant, trunk: Path, target: Path
) -> int:
    """Make an arm's folder where there is none yet; returns the step at which it ends."""
    hooks = list(c.hooks_of(arm))
    if not c.fork_step:
        if not (target / "config.json").exists():
            config = track.configuration(replace(settings, hook=tuple(hooks)), c.command)
            RunDirectory.create(target, {**config, "arm": arm, "variant": dict(variant)})
        return int(RunDirectory.open(target).config["total_steps"])
    with RunDirectory.open(trunk) as run:
        settings, step, source = track.beginning(settings, run, c.fork_step)
        config = _of_arm(track, run.config, settings, c.command, variant)
        own = {"settings": {**config["settings"], "hook": hooks}, "hooks": hooks, "arm": arm}
        fork(run, source, target, {**config, **own, "start_step": step, "stop_step": None})
    return int(config["total_steps"])


def _of_arm(track: Track, trunk: Mapping[str, Any], settings: Any, command: str, variant: Variant) -> dict[str, Any]:
    """The contents of config.json that an arm shares with its trunk, but for what its variant changes."""
    if not variant:
        return dict(trunk)
    return {**trunk, **track.configuration(settings, command), "variant": dict(variant)}
