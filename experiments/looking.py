"""Runs that were trained, as their checkpoints have them: to look at, and to act with."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..networks import Learner
from . import checkpoint, typed
from .denormals import flushing_denormals
from .errors import RunError
from .loop import BEST, KEPT, Loop, State, Warn
from .rundir import RunDirectory
from .runs import build, drive, settings_of
from .work import Work


def steps_of(path: Path) -> dict[int, Path]:
    """Return the step and the folder of every checkpoint of a run, those that were kept and the best among them, the
    oldest first. Raises RunError where there is none."""
    run = RunDirectory.open(path)
    places = (run.checkpoints, path / KEPT, path / BEST)
    folders = {int(folder.name): folder for place in places for folder in checkpoint.folders_of(place)}
    if not folders:
        raise RunError(f"{path} has no checkpoint yet: `supple resume {path}` goes on to the first")
    return dict(sorted(folders.items()))


def states(path: Path, folders: Mapping[int, Path], warn: Warn) -> Iterator[tuple[int, Work]]:
    """Yield a run's work in the state of each of these checkpoints, by their steps, the oldest first; networks are in
    evaluation mode. The next step changes the same work; behind the last one its environments are closed.

    Nothing is written. Raises UsageError for other plug-ins than the run was begun with, RunError for a run or a
    checkpoint that cannot be read."""
    run = RunDirectory.open(path)
    kind, settings = settings_of(run.config, path / "config.json")
    with flushing_denormals(settings.threads):
        work = build(kind, settings, warn)
        try:
            loop = Loop(run, work, drive(work, settings.hook, run.config["start_step"]), 0, run.end, warn)
            for step, folder in folders.items():
                tree = checkpoint.load(folder, run.identity)
                with checkpoint.taken_up(folder.parent):
                    loop.take_up(typed.fitted(tree, State, "state"))
                for learner in work.learners.values():
                    learner.module.eval()
                yield step, work
        finally:
            work.close()


def learners_at(path: Path, warn: Warn) -> Iterator[tuple[int, Mapping[str, Learner]]]:
    """Yield the step of every checkpoint of a run, and its learners there, with their recent data."""
    for step, work in states(path, steps_of(path), warn):
        yield step, work.learners
