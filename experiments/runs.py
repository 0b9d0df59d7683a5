"""From settings to a run on the disk, and from a run on the disk to its end, for every kind of run."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from ..experiments.compare import Seeds, Track, Warn
from ..experiments.errors import RunError, UsageError
from ..experiments.hooks import HookDriver
from ..experiments.read_hooks import read_hooks
from ..experiments.rundir import RunDirectory
from . import distributed
from .kinds import KINDS
from .loop import Loop, Progress
from .settings import TrackSettings
from .work import Work

EXPORT = "model"  # folder of the model that a finished run leaves, where its kind exports one


def build(kind: str, settings: TrackSettings) -> Work:
    """The network and the tasks of these settings. Raises UsageError for what cannot work."""
    settings.check()
    if distributed.world() > 1 and not KINDS[kind].shared:
        raise UsageError(f"supple {KINDS[kind].command} trains in one process: start it without torchrun")
    settings.resolve()
    torch.set_num_threads(settings.threads)
    module = importlib.import_module(f".{KINDS[kind].package}.work", __package__)
    try:
        work: Work = module.build(settings)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return work


def configuration(kind: str, settings: TrackSettings, work: Work, command: str) -> dict[str, Any]:
    """The contents of config.json, of a run that is no part of a comparison."""
    values = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(settings).items()}
    return {
        "algorithm": kind,
        "seed": settings.seed,
        "total_steps": work.tasks[-1].end,
        "start_step": 0,
        "stop_step": None,
        "hooks": [*work.hooks, *settings.hook],
        "arm": None,
        "command": command,
        "data": work.sources,
        "settings": values,
        "tasks": [asdict(task) for task in work.tasks],
    }


def read(work: Work, hooks: Sequence[str], start: int = 0, run: RunDirectory | None = None) -> HookDriver:
    """The hooks of a run. Raises UsageError for those that have no place in it."""
    learners = {work.learner.name: work.learner}
    if run is None:
        return read_hooks(hooks, work.tasks, learners, start)
    return read_hooks(hooks, work.tasks, learners, start, run.event, work.settings.curvature)


def create(path: Path, kind: str, settings: TrackSettings, command: str, warn: Warn = print) -> None:
    """Check everything that can be checked before training, then make the run directory. Raises UsageError."""
    settings.check_single()
    work = build(kind, settings)
    read(work, (*work.hooks, *settings.hook))
    RunDirectory.create(path, configuration(kind, settings, work, command), f"supple {KINDS[kind].script}")


def settings_of(config: Mapping[str, Any], file: Path) -> TrackSettings:
    """The settings that the contents of a file describe. Raises RunError if this version cannot read it."""
    try:
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in config["settings"].items()}
        return KINDS[config["algorithm"]].settings()(**values)
    except (KeyError, TypeError) as error:
        raise RunError(f"{file} was written by another version of supple: {error}") from error


def train(path: Path, progress: Progress, warn: Warn) -> None:
    """Bring the run in `path` to its end, from wherever it stands. Raises RunError if it cannot go on."""
    config = RunDirectory.open(path).config
    if (kind := config["algorithm"]) not in KINDS:
        raise UsageError(f"{path} is a run of {kind}: go on with it where it was begun")
    settings = settings_of(config, path / "config.json")
    try:
        with distributed.processes(settings.device), distributed.open_run(path) as run:
            work = build(kind, settings)
            if [asdict(task) for task in work.tasks] != config["tasks"] or work.sources != config["data"]:
                raise RunError(f"{path} was begun with other data: {config['data']}; here are {work.sources}")
            start, end = config["start_step"], run.end
            hooks = read(work, (*work.hooks, *settings.hook), start, run)
            Loop(run, work, hooks, start, end, warn).train(progress)
            if end == work.tasks[-1].end and distributed.first():
                work.export(path / EXPORT)
    except OSError as error:  # a full disk, say
        where = error.filename or path
        raise RunError(f"{where}: {error.strerror or error}; `--resume` goes on from the last checkpoint") from error


# -- comparisons ---------------------------------------------------------------------------------------------------


def _one_by_one(settings: TrackSettings, seeds: Sequence[int]) -> dict[Seeds, TrackSettings]:
    return {(seed,): replace(settings, seed=seed) for seed in seeds}


def _room(settings: TrackSettings, runs: int, warn: Warn) -> None:
    """What a run needs is mostly its model, which `build` has shown to fit once."""


class Functions:
    """What a comparison asks, of one kind of run: found by its name in worker processes, as `Track` wants it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def plan(self, settings: TrackSettings) -> Sequence[Any]:
        return build(self.kind, settings).tasks

    def stride(self, settings: TrackSettings) -> int:
        return 1

    def check(self, settings: TrackSettings, arms: Sequence[Sequence[str]], fork: int, warn: Warn) -> None:
        for hooks in arms:  # hooks may change a network: each arm is checked on its own
            work = build(self.kind, replace(settings, hook=tuple(hooks)))
            try:
                read(work, (*work.hooks, *hooks), work.tasks[1].start if fork else 0)
            except UsageError as error:
                raise UsageError(f"--arm: {str(error).removeprefix('--hook: ').removeprefix('--arm: ')}") from None

    def configuration(self, settings: TrackSettings, command: str) -> dict[str, Any]:
        settings = replace(settings)
        return configuration(self.kind, settings, build(self.kind, settings), command)


def track(kind: str) -> Track:
    """How runs of a kind are compared."""
    own = Functions(kind)
    return Track(
        plan=own.plan, stride=own.stride, check=own.check, room=_room, runs=_one_by_one,
        configuration=own.configuration, settings_of=settings_of, train=train, beginning=KINDS[kind].beginning,
    )  # fmt: skip
