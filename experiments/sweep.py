"""Sweeps: many comparisons in one folder, whose runs are one queue.

A study is a table of a sweep file. Its points become comparisons, ordinary ones, each in a folder of its own:

    DIR/sweep.json                 the studies, without what may be widened later
    DIR/STUDY/comparison.json      …/seed-0/learning_rate=0.001/none, as of `supple compare`
    DIR/STUDY/tuning/              where arms are tuned: the comparison of their points,
    DIR/STUDY/tuned.json           how good each was, and which was chosen
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import comparison as comparisons
from . import files, sealed
from .comparison import Comparison
from .errors import RunError, UsageError
from .jobs import Job, jobs_of
from .loop import Warn
from .study import Asked, Study
from .tried import Scores

FILE = "sweep.json"


@dataclass(frozen=True)
class Sweep:
    """Hold the studies of a sweep.

    sweep = Sweep([Study("lr", "ppo", settings={"env": "CartPole-v1"}, space=Space({"learning_rate": [1e-4, 1e-3]}))])
    sweep.begin(Path("runs/lr"))
    """

    studies: Sequence[Study]
    about: Mapping[str, Any] = field(default_factory=dict)  # a title and the like, for its report

    def begin(self, path: Path, jobs: int = 1, command: str = "", warn: Warn = print) -> list[Job]:
        """Make the folder of a sweep, or widen what has been begun there, and return all its runs.

        Points, arms, seeds and studies that are new are added; what is there already stays, also what the studies do
        not name any more. Where arms are tuned, each call adds the points that those before it ask for, and at last
        the runs with each arm at its best. jobs: runs at a time, whose memory is checked. Everything is checked before
        anything is written. Raises UsageError for what cannot be trained, and for studies that are others than those
        that the folder was begun with.
        """
        scores = Scores(path)
        before, found = self._plans(path, jobs, command, warn, scores)
        bases = before | {study.name: study.base for study in self.studies}
        published = {study.name: asdict(study.published) for study in self.studies if study.published}
        wanted = {"studies": bases, "published": published, "about": dict(self.about)}
        if not before:
            sealed.start_folder(path, FILE, wanted)
        with files.in_turn(path):  # of two that widen a sweep at once, the second adds to what the first has written
            if wanted != sealed.read_json(path / FILE, f"{path} is no sweep"):
                sealed.write_json(path / FILE, {**wanted, "studies": _bases(path) | bases})
            for folder, change in found.items():
                if change.plan != change.begun:
                    now = _begun(path / folder)
                    again = (
                        change if now == change.begun else _changed(path / folder, change.asked, jobs, command, warn)
                    )
                    comparisons.rewrite(path / folder, again.plan)
            for folder, change in found.items():
                if change.asked.tuned:
                    scores.write(folder, change.asked.tuned)
        return open_sweep(path, jobs, warn)

    def planned(self, path: Path, jobs: int = 1, warn: Warn = print) -> list[Job]:
        """Return all runs that `begin` would come to, and write nothing. Which points arms are tuned at, and which is
        best, cannot be known before: where they are searched for, other runs of the same number and length stand."""
        _, found = self._plans(path, jobs, "", warn, Scores(path, unknown=0.0))
        return [job for folder, change in found.items() for job in jobs_of(path / folder, change.plan, folder)]

    def _plans(
        self, path: Path, jobs: int, command: str, warn: Warn, scores: Scores
    ) -> tuple[dict[str, Any], "dict[str, Change]"]:
        """Return the studies that a folder was begun with, and what becomes of each folder in it."""
        names = [study.name for study in self.studies]
        if len(set(names)) < len(names) or not names:
            raise UsageError("a sweep has one study or more, each of another name")
        before = _bases(path) if (path / FILE).exists() else {}
        found = {}
        for study in self.studies:
            _check_base(study, before.get(study.name), path)
            try:
                for folder, asked in study.asked(scores).items():
                    found[folder] = _changed(path / folder, asked, jobs, command, warn)
            except ValueError as error:
                raise UsageError(f"[{study.name}] {error}") from error
        return before, found


@dataclass(frozen=True)
class Change:
    """A folder of a sweep: what a study asks for there, the comparison that has been begun, if any, and that which it
    becomes."""

    asked: Asked
    begun: Comparison | None
    plan: Comparison


def _changed(path: Path, asked: Asked, jobs: int, command: str, warn: Warn) -> Change:
    """Return what becomes of a folder. Raises UsageError for what cannot be trained, or not there."""
    begun = _begun(path)
    if begun is None:
        return Change(asked, None, comparisons.checked(asked.plan(command, warn), jobs, warn))
    if asked.within(begun):  # no network has to be built to see that there is nothing new
        return Change(asked, begun, begun)
    return Change(asked, begun, comparisons.widened(begun, asked.plan(command, warn), jobs, warn))


def _begun(path: Path) -> Comparison | None:
    return comparisons.read_comparison(path) if (path / comparisons.FILE).exists() else None


def open_sweep(path: Path, jobs: int = 1, warn: Warn = print) -> list[Job]:
    """Return all runs of the sweep in a folder. Raises UsageError where there is none."""
    every: list[Job] = []
    for folder in folders_of(path):
        plan = comparisons.read_comparison(folder)
        own = jobs_of(folder, plan, str(folder.relative_to(path)))
        if any(job.open for job in own):
            comparisons.require_memory(folder, plan, jobs, warn)
        every += own
    return every


def open_queue(path: Path, jobs: int = 1, warn: Warn = print) -> list[Job]:
    """Return the runs of the sweep or of the comparison in a folder, `jobs` of which go on at a time. Raises UsageError
    where there is neither."""
    if (path / FILE).is_file():
        return open_sweep(path, jobs, warn)
    return jobs_of(path, comparisons.open_comparison(path, jobs, warn))


def folders_of(path: Path) -> list[Path]:
    """Return the folders of a sweep's comparisons, in the order of its studies. Raises UsageError where there is no
    sweep."""
    return [file.parent for name in _bases(path) for file in sorted((path / name).glob(f"**/{comparisons.FILE}"))]


def _bases(path: Path) -> dict[str, Any]:
    found = sealed.read_json(path / FILE, f"{path} is no sweep").get("studies")
    if not isinstance(found, dict):
        raise RunError(f"{path / FILE} was edited, or written by another version of supple")
    return found


def _check_base(study: Study, before: Mapping[str, Any] | None, path: Path) -> None:
    """Raise UsageError where a study is another than it was when its runs were begun."""
    if before is None:
        return
    for name, value in study.base.items():
        if before.get(name) != value:
            raise UsageError(
                f"[{study.name}] {name} is {value!r}, and the runs in {path / study.name} were begun with "
                f"{before.get(name)!r}: put it back, or give another --out"
            )
