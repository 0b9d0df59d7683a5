"""From settings to a run on the disk, and from a run on the disk to its end."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..envs import Task, parse_sequence, task_stream
from ..experiments.compare import Seeds, Track, Warn
from ..experiments.errors import RunError, UsageError
from ..experiments.read_hooks import read_hooks
from ..experiments.rundir import RunDirectory
from ..experiments.settings import RunSettings
from .agent import Agent
from .algorithms import ALGORITHMS
from .loop import Loop, Progress


def plan(settings: RunSettings) -> tuple[Task, ...]:
    """Check settings and lay out their tasks. Raises UsageError in one line for what cannot work."""
    settings.check()
    text, steps = settings.stream()
    if spare := steps % (stride := settings.stride):
        near = " or ".join(str(n) for n in (steps - spare, steps - spare + stride) if n)
        together = f"--num-envs {settings.num_envs}, which step together"
        if stride != settings.num_envs:
            together = f"{stride}, the steps of one decision (--num-envs times --action-repeat)"
        raise UsageError(
            f"{'--steps' if settings.env else '--steps-per-task'} {steps} is no multiple of {together}: {near} would be"
        )
    try:
        return task_stream(parse_sequence(text), settings.cycles, steps)
    except ValueError as error:
        raise UsageError(str(error)) from error
    except ImportError as error:
        raise RunError(str(error)) from error


def configuration(algorithm: str, settings: RunSettings, tasks: Sequence[Task], command: str) -> dict[str, Any]:
    """The contents of config.json, of a run that is no part of a comparison: it begins at step 0 (`start_step`), goes
    on to its end (`stop_step`) and is no arm. command: what was typed."""
    return {
        "algorithm": algorithm,
        "seed": settings.seed,
        "total_steps": tasks[-1].end,
        "start_step": 0,
        "stop_step": None,
        "hooks": list(settings.hook),
        "arm": None,
        "command": command,
        "settings": asdict(settings),
        "tasks": [asdict(task) for task in tasks],
    }


def create(path: Path, algorithm: str, settings: RunSettings, command: str, warn: Warn = print) -> None:
    """Check everything that can be checked before training, then make the run directory. Raises UsageError."""
    tasks = plan(settings)
    read_hooks(settings.hook, tasks, build(algorithm, settings, tasks, warn).learners)
    RunDirectory.create(path, configuration(algorithm, settings, tasks, command))


def build(algorithm: str, settings: RunSettings, tasks: Sequence[Task], warn: Warn) -> Agent:
    """The agent of these settings, which are resolved here. Raises UsageError, or RunError where a
    simulator is not installed."""
    kind = ALGORITHMS[algorithm]
    if note := settings.resolve():
        warn(note)
    torch.set_num_threads(settings.threads)
    try:
        spaces = {name: kind.space(settings, name) for name in dict.fromkeys(task.env for task in tasks)}
        return kind.agent(settings, spaces)
    except ImportError as error:
        raise RunError(str(error)) from error
    except ValueError as error:
        raise UsageError(str(error)) from error


def settings_of(config: Mapping[str, Any], file: Path) -> RunSettings:
    """The settings object that the contents of a file describe. Raises RunError if this version cannot read it."""
    try:
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in config["settings"].items()}
        return ALGORITHMS[config["algorithm"]].settings(**values)
    except (KeyError, TypeError) as error:
        raise RunError(f"{file} was written by another version of supple: {error}") from error


def train(path: Path, progress: Progress, warn: Warn) -> None:
    """Bring the run in `path` to its end, from wherever it stands. Raises RunError if it cannot go on."""
    try:
        with RunDirectory.open(path) as run:
            settings = settings_of(run.config, path / "config.json")
            tasks, start = plan(settings), run.config["start_step"]
            agent = build(run.config["algorithm"], settings, tasks, warn)
            hooks = read_hooks(settings.hook, tasks, agent.learners, start, run.event)
            kind = ALGORITHMS[run.config["algorithm"]]
            Loop(run, kind, settings, agent, hooks, tasks, start, run.end, warn).train(progress)
    except OSError as error:  # a full disk, say
        where = error.filename or path
        raise RunError(f"{where}: {error.strerror or error}; `--resume` goes on from the last checkpoint") from error


# -- comparisons ---------------------------------------------------------------------------------------------------


def track(algorithm: str) -> Track:
    """How runs of this algorithm are compared."""
    return Track(
        plan=plan,
        stride=_stride,
        check=partial(_check_arms, algorithm),
        room=partial(_require_room, algorithm),
        runs=_one_by_one,
        configuration=partial(_configuration, algorithm),
        settings_of=settings_of,
        train=train,
    )


def _stride(settings: RunSettings) -> int:
    return settings.stride


def _check_arms(algorithm: str, settings: RunSettings, arms: Sequence[Sequence[str]], fork: int, warn: Warn) -> None:
    tasks = plan(settings)
    for hooks in arms:
        read_hooks(hooks, tasks, build(algorithm, settings, tasks, warn).learners, fork)


def _require_room(algorithm: str, settings: RunSettings, runs: int, warn: Warn) -> None:
    try:
        build(algorithm, settings, plan(settings), warn).check_room(runs)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _one_by_one(settings: RunSettings, seeds: Sequence[int]) -> dict[Seeds, RunSettings]:
    return {(seed,): replace(settings, seed=seed) for seed in seeds}


def _configuration(algorithm: str, settings: RunSettings, command: str) -> dict[str, Any]:
    return configuration(algorithm, settings, plan(settings), command)
