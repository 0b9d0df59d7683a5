"""From settings to a run on the disk, and from a run on the disk to its end."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ...experiments.compile import can_compile
from ...experiments.errors import RunError, UsageError
from ...experiments.read_hooks import read_hooks
from ...experiments.rundir import RunDirectory
from ...experiments.settings import device_here
from ...interventions import Hook, When, parse_hook
from .data import load
from .loop import Loop, Progress
from .model import Model
from .settings import VisionSettings
from .stream import Stream

ALGORITHM = "vision"  # in config.json, where agents have their algorithm's name
Warn = Callable[[str], None]  # takes one line for the user


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


def configuration(
    settings: VisionSettings, stream: Stream, command: str, start: int = 0, stop: int | None = None,
    arm: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The contents of config.json. start, stop: the updates at which this run begins (a fork) and ends (a trunk)."""
    values = asdict(settings)
    return {
        "algorithm": ALGORITHM,
        "seed": settings.seeds[0],
        "total_steps": stream.tasks[-1].end,
        "start_step": start,
        "stop_step": stop,
        "hooks": list(settings.hook),
        "arm": arm,
        "command": command,
        "data": stream.data.source,
        "settings": {**values, "data": None if settings.data is None else str(settings.data.expanduser().absolute())},
        "tasks": [asdict(task) for task in stream.tasks],
    }


def create(path: Path, settings: VisionSettings, command: str, warn: Warn = print) -> None:
    """Check everything that can be checked before training, then make the run directory. Raises UsageError."""
    stream, model = build(settings)
    read_hooks(settings.hook, stream.tasks, {"model": model.learner})
    if len(settings.seeds) > 1:
        for hook in filter(None, map(parse_hook, settings.hook)):
            _refuse_conditions(hook)
    RunDirectory.create(path, configuration(settings, stream, command))


def _refuse_conditions(hook: Hook) -> None:
    """A condition is met by one seed and not by another, but a stack is intervened in as a whole."""
    if isinstance(hook.schedule, When):
        raise UsageError(f"--hook {hook.text}: with several --seeds, conditions would be those of their mean; "
                         f"train one seed at a time")  # fmt: skip


def settings_of(config: dict[str, Any], file: Path) -> VisionSettings:
    """The settings that the contents of a file describe. Raises RunError if this version cannot read it."""
    try:
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in config["settings"].items()}
        folder = values.pop("data")
        return VisionSettings(**values, data=None if folder is None else Path(folder))
    except (KeyError, TypeError) as error:
        raise RunError(f"{file} was written by another version of supple: {error}") from error


def train(path: Path, progress: Progress, warn: Warn) -> None:
    """Bring the run in `path` to its end, from wherever it stands. Raises RunError if it cannot go on."""
    try:
        with RunDirectory.open(path) as run:
            if (algorithm := run.config["algorithm"]) != ALGORITHM:
                raise UsageError(f"{path} is a run of {algorithm}: go on with it by `supple train --resume {path}`")
            settings = settings_of(run.config, path / "config.json")
            stream, model = build(settings)
            if [asdict(task) for task in stream.tasks] != run.config["tasks"]:
                raise RunError(f"{path} was begun with other data: {run.config['data']}; here are {stream.data.source}")
            hooks = read_hooks(
                settings.hook, stream.tasks, {"model": model.learner}, run.config["start_step"], run.event
            )
            compiled = settings.compile == "on"
            Loop(run, stream, model, hooks, run.config["start_step"], planned(path), compiled, warn).train(progress)
    except OSError as error:  # a full disk, say
        where = error.filename or path
        raise RunError(f"{where}: {error.strerror or error}; `--resume` goes on from the last checkpoint") from error


def planned(path: Path) -> int:
    """The update at which the run in `path` will end."""
    config = RunDirectory.open(path).config
    return int(config["total_steps"] if config["stop_step"] is None else config["stop_step"])
