"""From settings to a run on the disk, and from a run on the disk to its end."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from ...experiments.compare import Seeds, Track, Warn
from ...experiments.compile import can_compile
from ...experiments.errors import RunError, UsageError
from ...experiments.read_hooks import read_hooks
from ...experiments.rundir import RunDirectory
from ...experiments.settings import device_here
from ...interventions import When
from .data import load
from .loop import Loop, Progress
from .model import Model
from .settings import VisionSettings
from .stream import Stream, Task

ALGORITHM = "vision"  # in config.json, where agents have their algorithm's name


def resolve(settings: VisionSettings, stream: Stream) -> None:
    """Decide what was left to be decided here, so that config.json says it and a resumed run does the same.

    Raises UsageError for what cannot work here."""
    settings.device = device_here(settings.device)
    if settings.compile == "auto":
        long = stream.tasks[-1].end >= 20_000
        plain = settings.stacked and not settings.shock_every and settings.device == "cpu"
        settings.compile = "on" if long and plain and can_compile() else "off"
    if settings.compile == "on":
        if settings.shock_every:
            raise UsageError("--compile on does not go with --shock-every: the factor is not part of the graph")
        if not can_compile():
            raise UsageError("--compile on: torch.compile does not work here (it needs a C++ compiler)")


def build(settings: VisionSettings) -> tuple[Stream, Model]:
    """The stream and the network of these settings. Raises UsageError for what cannot work."""
    settings.check()
    data = load(settings.dataset, settings.data)
    stream = Stream(settings, data)
    resolve(settings, stream)
    torch.set_num_threads(settings.threads)
    try:
        return stream, Model(settings, data, stream.classes, settings.device)
    except ValueError as error:
        raise UsageError(str(error)) from error


def configuration(settings: VisionSettings, stream: Stream, command: str) -> dict[str, Any]:
    """The contents of config.json, of a run that is no part of a comparison."""
    values = asdict(settings)
    return {
        "algorithm": ALGORITHM,
        "seed": settings.seeds[0],
        "total_steps": stream.tasks[-1].end,
        "start_step": 0,
        "stop_step": None,
        "hooks": list(settings.hook),
        "arm": None,
        "command": command,
        "data": stream.data.source,
        "settings": {**values, "data": None if settings.data is None else str(settings.data.expanduser().absolute())},
        "tasks": [asdict(task) for task in stream.tasks],
    }


def create(path: Path, settings: VisionSettings, command: str, warn: Warn = print) -> None:
    """Check everything that can be checked before training, then make the run directory. Raises UsageError."""
    stream, model = build(settings)
    check_hooks(settings, stream, model)
    RunDirectory.create(path, configuration(settings, stream, command), "supple vision")


def check_hooks(settings: VisionSettings, stream: Stream, model: Model, start: int = 0) -> None:
    """Raise UsageError for hooks that have no place in this run."""
    for hook in read_hooks(settings.hook, stream.tasks, {"model": model.learner}, start).hooks:
        if isinstance(hook.schedule, When) and len(settings.seeds) > 1:
            raise UsageError(
                f"{'--arm' if start else '--hook'} {hook.text}: one seed meets a condition and another does not; "
                f"with several --seeds as one stack it would be that of their mean: train one seed at a time"
            )


def settings_of(config: Mapping[str, Any], file: Path) -> VisionSettings:
    """The settings that the contents of a file describe. Raises RunError if this version cannot read it."""
    try:
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in config["settings"].items()}
        folder = values.pop("data")
        return VisionSettings(**values, data=None if folder is None else Path(folder))
    except (KeyError, TypeError) as error:
        raise RunError(f"{file} was written by another version of supple: {error}") from error


def train(path: Path, progress: Progress, warn: Warn) -> None:
    """Bring the run in `path` to its end, from wherever it stands. Raises RunError if it cannot go on."""
    try:
        with flushing_denormals(), RunDirectory.open(path) as run:
            if (algorithm := run.config["algorithm"]) != ALGORITHM:
                raise UsageError(f"{path} is a run of {algorithm}: go on with it by `supple train --resume {path}`")
            settings = settings_of(run.config, path / "config.json")
            stream, model = build(settings)
            if [asdict(task) for task in stream.tasks] != run.config["tasks"]:
                raise RunError(f"{path} was begun with other data: {run.config['data']}; here are {stream.data.source}")
            learners, start = {"model": model.learner}, run.config["start_step"]
            hooks = read_hooks(settings.hook, stream.tasks, learners, start, run.event, settings.curvature)
            compiled = settings.compile == "on"
            Loop(run, stream, model, hooks, start, run.end, compiled, warn).train(progress)
    except OSError as error:  # a full disk, say
        where = error.filename or path
        raise RunError(f"{where}: {error.strerror or error}; `--resume` goes on from the last checkpoint") from error


@contextmanager
def flushing_denormals() -> Iterator[None]:
    """Take numbers too small for full precision for zero: the moments of dead units decay into them, and arithmetic on
    them is slow. Threads that begin in here do so too."""
    half = torch.tensor(torch.finfo(torch.float32).tiny) / 2
    before = float(half) == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


# -- comparisons ---------------------------------------------------------------------------------------------------


def plan(settings: VisionSettings) -> tuple[Task, ...]:
    """The tasks of these settings. Raises UsageError for what cannot work."""
    settings.check()
    return Stream(settings, load(settings.dataset, settings.data)).tasks


def _stride(settings: VisionSettings) -> int:
    return 1


def _check_arms(settings: VisionSettings, arms: Sequence[Sequence[str]], fork: int, warn: Warn) -> None:
    stream, model = build(settings)
    for hooks in arms:
        check_hooks(replace(settings, hook=tuple(hooks)), stream, model, fork)
        model = Model(settings, stream.data, stream.classes, settings.device)  # hooks may have changed the last one


def _room(settings: VisionSettings, runs: int, warn: Warn) -> None:
    """Classifiers and their data are small."""


def _stacked(settings: VisionSettings, seeds: Sequence[int]) -> dict[Seeds, VisionSettings]:
    together = [tuple(seeds)] if settings.stacked else [(seed,) for seed in seeds]
    return {own: replace(settings, seeds=own) for own in together}


def _configuration(settings: VisionSettings, command: str) -> dict[str, Any]:
    return configuration(settings, Stream(settings, load(settings.dataset, settings.data)), command)


TRACK = Track(
    plan=plan, stride=_stride, check=_check_arms, room=_room, runs=_stacked, configuration=_configuration,
    settings_of=settings_of, train=train,
)  # fmt: skip
