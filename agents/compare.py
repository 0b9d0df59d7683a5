"""Comparisons: one trunk per seed, then every arm from the trunk's identical state."""

import contextlib
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..experiments.errors import RunError, UsageError
from ..experiments.fork import fork
from ..experiments.read_hooks import read_hooks
from ..experiments.rundir import RunDirectory, read_json, start_folder
from ..experiments.settings import RunSettings
from .runs import Warn, build, configuration, plan, settings_of, train

Watch = Callable[[str, int, int], None]  # label, step, last step


@dataclass(frozen=True)
class Comparison:
    """What is compared: `arms` are hook texts joined by ` + ` (or `none`)."""

    algorithm: str
    settings: RunSettings
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    fork_step: int
    command: str

    def hooks_of(self, arm: str) -> tuple[str, ...]:
        return tuple(re.split(r"\s+\+\s+", arm.strip()))


def fork_step_of(settings: RunSettings, fork_at: float) -> int:
    """The step of the fork: `fork_at` in (0, 1) of the planned total, at whole vector steps."""
    tasks = plan(settings)
    if not 0 < fork_at < 1:
        raise UsageError(f"--fork-at must lie between 0 and 1 (a fraction of the run), got {fork_at}")
    step = round(fork_at * tasks[-1].end / settings.stride) * settings.stride
    if not 0 < step < tasks[-1].end:
        raise UsageError(f"--fork-at {fork_at} would fork at step {step} of {tasks[-1].end}: nothing to compare")
    return step


def slug(arm: str) -> str:
    """A folder name for an arm."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", arm).strip("_")


def create(path: Path, comparison: Comparison, jobs: int, warn: Warn = print) -> None:
    """Check the whole comparison, of which `jobs` runs go on at a time, then write comparison.json.

    Raises UsageError."""
    tasks = plan(comparison.settings)
    if comparison.settings.hook:
        raise UsageError("--hook belongs to `supple train`; in a comparison every --arm names its hooks")
    for arm in comparison.arms:
        if "none" in (parts := comparison.hooks_of(arm)) and len(parts) > 1:
            raise UsageError(f"--arm '{arm}': none goes with no other hook")
    if len({slug(arm) for arm in comparison.arms}) < len(comparison.arms):
        raise UsageError(f"two arms would share a folder: {', '.join(comparison.arms)}")
    for arm in comparison.arms:
        agent = build(comparison.algorithm, comparison.settings, tasks, warn)
        read_hooks(comparison.hooks_of(arm), tasks, agent.learners, comparison.fork_step)
    require_room(comparison, jobs, warn)
    start_folder(path, "comparison.json", asdict(comparison), "supple compare")


def require_room(comparison: Comparison, jobs: int, warn: Warn) -> None:
    """Raise UsageError if `jobs` runs at a time need more memory than there is."""
    agent = build(comparison.algorithm, comparison.settings, plan(comparison.settings), warn)
    try:
        agent.check_room(min(jobs, len(comparison.seeds) * len(comparison.arms)))
    except ValueError as error:
        raise UsageError(str(error)) from error


def open_comparison(path: Path, jobs: int, warn: Warn = print) -> Comparison:
    """Read comparison.json back, to go on with `jobs` runs at a time.

    Raises UsageError where there is none, or no room for so many runs.
    """
    file = path / "comparison.json"
    data = read_json(file, f"{path} is no comparison")
    settings = settings_of(data, file)
    try:
        lists = {name: tuple(data[name]) for name in ("arms", "seeds")}
        comparison = Comparison(**{**data, **lists, "settings": settings})
    except (KeyError, TypeError) as error:
        raise RunError(f"{file} was written by another version of supple: {error}") from error
    require_room(comparison, jobs, warn)
    return comparison


def run_comparison(path: Path, comparison: Comparison, jobs: int, watch: Watch, warn: Warn) -> None:
    """Bring every trunk and arm to its end, `jobs` at a time; what is finished already is left as it is.

    Arms run in processes of their own with the environment's own threads; their number and their order
    change nothing in any result. Raises RunError if a worker dies.
    """
    context = multiprocessing.get_context("spawn")
    messages, (alive, lifeline) = context.SimpleQueue(), context.Pipe(duplex=False)
    with lifeline, ProcessPoolExecutor(jobs, context, _begin_worker, (messages, alive)) as pool:
        pending: set[Future[tuple[int, str | None]]] = set()
        for seed in comparison.seeds:
            pending.add(_submit(pool, path, comparison, seed, None))
        try:
            while pending:
                done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                while not messages.empty():
                    kind, *rest = messages.get()
                    warn(*rest) if kind == "warn" else watch(*rest)
                for future in done:
                    seed, arm = future.result()
                    if arm is None:  # a trunk is done: its arms can begin
                        pending |= {_submit(pool, path, comparison, seed, a) for a in comparison.arms}
        except BaseException as error:
            lifeline.close()  # workers that are still busy exit at once
            if isinstance(error, BrokenProcessPool):
                raise RunError(f"a worker process died; go on with `supple compare --resume {path}`") from None
            raise


def _submit(pool: ProcessPoolExecutor, *work: Any) -> Future[tuple[int, str | None]]:
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


def _run_one(path: Path, c: Comparison, seed: int, arm: str | None) -> tuple[int, str | None]:
    """In a worker: the trunk of a seed (`arm` None), or one arm from its end."""
    tasks = plan(c.settings)
    settings = replace(c.settings, seed=seed)
    trunk = path / f"seed-{seed}" / "trunk"
    if arm is None:
        target, end = trunk, c.fork_step
        if not (trunk / "config.json").exists():
            RunDirectory.create(trunk, configuration(c.algorithm, settings, tasks, c.command, stop=c.fork_step))
    else:
        target, end = path / f"seed-{seed}" / slug(arm), tasks[-1].end
        own = replace(settings, hook=c.hooks_of(arm))
        config = configuration(c.algorithm, own, tasks, c.command, start=c.fork_step, arm=arm)
        fork(RunDirectory.open(trunk), c.fork_step, target, config)
    label = f"seed {seed} · {arm or 'trunk'}"
    train(
        target,
        lambda step: _messages.put(("step", label, step, end)),
        lambda line: _messages.put(("warn", line)),
    )
    return seed, arm
