"""From settings to a run on the disk, and from a run on the disk to its end."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..envs import Task, parse_sequence, task_stream
from ..experiments.errors import RunError, UsageError
from ..experiments.hooks import HookDriver
from ..experiments.rundir import RunDirectory
from ..interventions import AtStart, Hook, When, did_you_mean, parse_hook, parse_hook_text
from ..metrics import HELP
from .loop import Loop, Progress, spaces_of
from .ppo import PPO, PPOSettings

ALGORITHMS: dict[str, type[PPOSettings]] = {"ppo": PPOSettings}


def plan(settings: PPOSettings) -> tuple[Task, ...]:
    """Check settings and lay out their tasks. Raises UsageError in one line for what cannot work."""
    settings.check()
    text, steps = settings.stream()
    try:
        return task_stream(parse_sequence(text), settings.cycles, steps)
    except ValueError as error:
        raise UsageError(str(error)) from error


def read_hooks(texts: Sequence[str], tasks: Sequence[Task], start: int = 0) -> list[Hook]:
    """Parse hooks and refuse those that never fire in this run. `start` > 0: a fork, where a hook without a
    schedule is applied at the fork. Raises UsageError."""
    hooks = []
    for text in texts:
        try:
            hook = parse_hook(text, default=AtStart() if start else None)
        except ValueError as error:
            raise UsageError(f"--{'arm' if start else 'hook'}: {error}") from error
        if problem := parse_hook_text(text).problem(tasks[-1].end, start, tasks[-1].index):
            raise UsageError(problem)
        if hook and isinstance(when := hook.schedule, When) and when.metric.split("/", 1)[-1] not in HELP:
            raise UsageError(f"{hook.text}: unknown metric {when.metric!r}{did_you_mean(when.metric, HELP)}")
        if hook:
            hooks.append(hook)
    if duplicates := {h.text for h in hooks if sum(h.text == o.text for o in hooks) > 1}:
        raise UsageError(f"the hook {duplicates.pop()} is given twice")
    return hooks


def configuration(
    algorithm: str,
    settings: PPOSettings,
    tasks: Sequence[Task],
    command: str,
    start: int = 0,
    stop: int | None = None,
    arm: str | None = None,
) -> dict[str, Any]:
    """The contents of config.json. start, stop: the steps at which this run begins (a fork) and ends (a
    trunk). arm: its label in a comparison. command: what was typed."""
    return {
        "algorithm": algorithm,
        "seed": settings.seed,
        "total_steps": tasks[-1].end,
        "start_step": start,
        "stop_step": stop,
        "hooks": list(settings.hook),
        "arm": arm,
        "command": command,
        "settings": asdict(settings),
        "tasks": [asdict(task) for task in tasks],
    }


def create(path: Path, algorithm: str, settings: PPOSettings, command: str) -> None:
    """Check everything that can be checked before training, then make the run directory. Raises UsageError."""
    tasks = plan(settings)
    hooks = read_hooks(settings.hook, tasks)
    agent, settings, _ = build(algorithm, settings, tasks)
    try:
        HookDriver(hooks, agent.learners, lambda **_: None, tasks[-1].end, 0)
    except ValueError as error:
        raise UsageError(f"--hook: {error}") from error
    RunDirectory.create(path, configuration(algorithm, settings, tasks, command))


def build(algorithm: str, settings: PPOSettings, tasks: Sequence[Task]) -> tuple[PPO, PPOSettings, str]:
    """The agent of these settings, the settings as resolved, and the identity of its checkpoints."""
    settings.resolve_compile()
    torch.set_num_threads(settings.threads)
    try:
        agent = PPO(settings, spaces_of(tuple(task.env for task in tasks)))
    except ImportError as error:
        raise RunError(str(error)) from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    same = {k: v for k, v in asdict(settings).items() if k != "hook"}
    identity = hashlib.sha256(json.dumps([algorithm, same], sort_keys=True).encode()).hexdigest()
    return agent, settings, identity


def settings_of(config: dict[str, Any]) -> PPOSettings:
    """The settings object that a config.json describes. Raises RunError if this version cannot read it."""
    try:
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in config["settings"].items()}
        return ALGORITHMS[config["algorithm"]](**values)
    except (KeyError, TypeError) as error:
        raise RunError(f"config.json was written by another version of supple: {error}") from error


def train(path: Path, progress: Progress, warn: Callable[[str], None]) -> None:
    """Bring the run in `path` to its end, from wherever it stands."""
    run = RunDirectory.open(path)
    settings = settings_of(run.config)
    tasks, start = plan(settings), run.config["start_step"]
    agent, settings, identity = build(run.config["algorithm"], settings, tasks)
    end = planned(path)
    hooks = read_hooks(settings.hook, tasks, start)
    driver = HookDriver(hooks, agent.learners, run.event, tasks[-1].end, start)
    Loop(run, settings, agent, driver, tasks, start, end, identity, warn).train(progress)


def planned(path: Path) -> int:
    """The step at which the run in `path` will end."""
    config = RunDirectory.open(path).config
    return int(config["stop_step"] or config["total_steps"])
