"""A run that goes on for longer than it was planned."""

from dataclasses import asdict
from pathlib import Path

from ..interventions import parse_hook
from . import sealed
from .claim import PATIENCE, claim
from .denormals import flushing_denormals
from .errors import UsageError
from .loop import Warn
from .rundir import RunDirectory
from .runs import build, drive, plain, settings_of


def extend(path: Path, steps: int, warn: Warn) -> None:
    """Plan a run for so many steps in all, of which `supple resume` then takes those that are left.

    Fractions in hooks keep their old meaning, and a line says so. What happened at the old end has happened: the run is
    not the one that would have been planned for so long from the beginning.

    Raises UsageError, with nothing changed, for what cannot go on, RunError where another process is at work on it.
    """
    with claim(path, PATIENCE):
        run = RunDirectory.open(path)
        config, file = run.config, path / "config.json"
        if config["arm"] or config["start_step"] or config["stop_step"] is not None:
            raise UsageError(f"{path} is part of a comparison, whose runs end together: it cannot go on for longer")
        kind, settings = settings_of(config, file)
        settings = settings.longer(steps)
        for hook in filter(None, map(parse_hook, settings.hook)):
            if hook.intervention.has("finish_task"):
                raise UsageError(f"{hook.text} has taken the old end for the end of a task: it cannot go on for longer")
        with flushing_denormals(settings.threads):
            work = build(kind, settings, warn)
            try:
                drive(work, settings.hook)
                tasks = [asdict(task) for task in work.tasks]
            finally:
                work.close()
        planned = config.get("planned_steps", config["total_steps"])
        sealed.write_json(
            file,
            {
                **config, "settings": plain(settings), "tasks": tasks, "total_steps": tasks[-1]["end"],
                "planned_steps": planned, "identity": run.identity,
            },
        )  # fmt: skip
        warn(f"{path} goes on to step {tasks[-1]['end']:,}; fractions in its hooks are of {planned:,} steps as before")
