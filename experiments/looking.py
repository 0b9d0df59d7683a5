"""The learners of a run that was trained, as its checkpoints have them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..networks import Learner
from . import checkpoint, typed
from .denormals import flushing_denormals
from .errors import RunError
from .loop import BEST, KEPT, Loop, State, Warn
from .rundir import RunDirectory
from .runs import build, drive, settings_of


def learners_at(path: Path, warn: Warn) -> Iterator[tuple[int, Mapping[str, Learner]]]:
    """Yield the step of every checkpoint of a run, those that were kept and the best among them, and its learners in
    evaluation mode, with their recent data; the oldest first. The next step changes the same learners.

    Nothing is written. Raises RunError where there is no checkpoint, and for one that cannot be read.
    """
    run = RunDirectory.open(path)
    kind, settings = settings_of(run.config, path / "config.json")
    places = (run.checkpoints, path / KEPT, path / BEST)
    folders = {int(folder.name): folder for place in places for folder in checkpoint.folders_of(place)}
    if not folders:
        raise RunError(f"{path} has no checkpoint yet: `supple resume {path}` goes on to the first")
    with flushing_denormals(settings.threads):
        work = build(kind, settings, warn)
        try:
            loop = Loop(run, work, drive(work, settings.hook, run.config["start_step"]), 0, run.end, warn)
            for step in sorted(folders):
                tree = checkpoint.load(folders[step], run.identity)
                with checkpoint.taken_up(folders[step].parent):
                    loop.take_up(typed.fitted(tree, State, "state"))
                for learner in work.learners.values():
                    learner.module.eval()
                yield step, work.learners
        finally:
            work.close()
