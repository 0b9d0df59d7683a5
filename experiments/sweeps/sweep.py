"""Sweeps: many comparisons in one folder, whose runs form one queue.

A study is a table of a sweep file. Its points become ordinary comparisons, each in its own folder:

    DIR/sweep.json                 the studies, as a `Sweep`
    DIR/STUDY/comparison.json      …/seed-0/learning_rate=0.001/none, as from `supple compare`
    DIR/STUDY/tuning/              if arms are tuned: the comparison of their points,
    DIR/STUDY/tuned.json           the score of each point, and the chosen ones
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from supple.engine.loop import Warn
from supple.engine.machine.torchrun import require_alone
from supple.engine.settings import Seeds
from supple.engine.spec import FILE as RUN
from supple.engine.spec import read_spec, to_json, unreadable
from supple.engine.storage import files, names, signed_json
from supple.engine.user_code import plugins
from supple.experiments.comparisons import folder as comparisons
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.grid import name_variant
from supple.experiments.queue.queue import FAILED, OUTCOME, Queue, read_outcome
from supple.registry.errors import UsageError

from .scores import PointScores
from .study import Study
from .tuning import TUNING, Tuning

FILE = "sweep.json"


@dataclass(frozen=True)
class Sweep:
    """A sweep: a list of studies, and facts such as a title for its report.

    sweep = Sweep([Study("lr", "ppo", settings={"env": "CartPole-v1"}, space=Space({"learning_rate": [1e-4, 1e-3]}))])
    sweep.begin(Path("runs/lr"))
    """

    studies: Sequence[Study]
    about: Mapping[str, Any] = field(default_factory=dict)  # see `file.About`
    command: str = ""  # as typed

    def begin(self, path: Path, jobs: int = 1, command: str = "", warn: Warn = print) -> Queue:
        """Make the folder of a sweep, or extend an existing one, and return all its runs.

        New points, arms, seeds and studies are added. Everything that is already there stays, even if the studies no
        longer contain it. If arms are tuned, each call adds the next points and, at last, the runs with each arm at its
        best point. Everything is checked before anything is written.

        Args:
            path: The folder.
            jobs: Number of simultaneous runs, for which the memory is checked.
            command: The command line as typed.
            warn: Called with lines for the user.

        Raises:
            UsageError: A study cannot be trained, or differs from the one with which the folder was started.
        """
        scores = PointScores(path)
        before, changes = self._plan(path, jobs, command, warn, scores)
        asked = replace(self, command=command)
        if not before:
            try:
                signed_json.start_folder(path, FILE, to_json(asked))
            except UsageError:
                if not (path / FILE).is_file():  # else another process has made it since this one looked
                    raise
        with files.lock_folder(path):  # if two processes extend a sweep at once, the second adds to the first's
            there = _studies(path)
            for study in self.studies:
                _check_base(study, there.get(study.name), path)
            studies = there | {study.name: study for study in self.studies}
            signed_json.write_json(path / FILE, to_json(replace(asked, studies=list(studies.values()))))
            _write_changes(path, changes, scores, jobs, warn)
        return open_sweep(path, warn)

    def preview(self, path: Path, jobs: int = 1, warn: Warn = print) -> Queue:
        """Return all runs that `begin` would make, and write nothing.

        The points of a search are not known beforehand. Other runs, of the same number and length, stand for them.
        """
        _, changes = self._plan(path, jobs, "", warn, PointScores(path, unknown=0.0))
        return Queue(run for folder, change in changes.items() for run in change.plan.queue(path / folder, folder))

    def _plan(
        self, path: Path, jobs: int, command: str, warn: Warn, scores: PointScores
    ) -> tuple[dict[str, Study], "dict[str, Change]"]:
        """Return the studies with which the folder was started, and the change of each of its folders."""
        called = [study.name for study in self.studies]
        if len(set(called)) < len(called) or not called:
            raise UsageError("a sweep needs at least one study, and their names must differ")
        before = _studies(path) if (path / FILE).exists() else {}
        if not before:
            signed_json.require_outside(path)
        changes: dict[str, Change] = {}
        notes: dict[str, None] = {}
        for study in self.studies:
            if study.name not in before and names.slug(study.name) != study.name:
                raise UsageError(
                    f"[{study.name}]: the name of a study is that of its folder: use lower-case letters, digits and "
                    f"._=-, and none of {', '.join(names.OWN)}"
                )
            _check_base(study, before.get(study.name), path)
            try:
                wanted = study.comparisons(scores)
                _check_places(path, study.name, wanted)
                for folder, (comparison, tuning) in wanted.items():
                    asked = replace(comparison, command=command)
                    changes[folder] = change = _plan_change(path / folder, asked, jobs, notes.setdefault, tuning)
                    if change.plan.note:
                        notes.setdefault(f"[{study.name}] {change.plan.note}")
            except ValueError as error:
                raise UsageError(f"[{study.name}] {error}") from error
        for line in notes:  # not before, so that a refusal is one line
            warn(line)
        return before, changes


@dataclass(frozen=True)
class Change:
    """A change of a sweep's folder: the comparison as asked for, the existing one or None, and the new one."""

    wanted: Comparison
    begun: Comparison | None
    plan: Comparison
    tuning: Tuning | None = None


def _write_changes(path: Path, changes: Mapping[str, Change], scores: PointScores, jobs: int, warn: Warn) -> None:
    """Write the comparisons of a sweep that change, and the scores of all points. The folder is locked."""
    for folder, change in changes.items():
        if change.plan != change.begun:
            if _read_begun(path / folder) != change.begun:  # another process was faster
                change = _plan_change(path / folder, change.wanted, jobs, warn)
            comparisons.rewrite(path / folder, change.plan)
    for folder, change in changes.items():
        if change.tuning:
            scores.write(folder, change.tuning)


def _plan_change(path: Path, wanted: Comparison, jobs: int, warn: Warn, tuning: Tuning | None = None) -> Change:
    """Return the change of a folder. Raises UsageError if it cannot be trained, or not in this folder."""
    begun = _read_begun(path)
    if begun is None:
        return Change(wanted, begun, wanted.resolve(jobs, warn), tuning)
    if begun.leads and wanted.leads != begun.leads:
        raise UsageError(f"leads is {wanted.leads!r}, but runs were started with {begun.leads!r}: restore that value")
    known, asked = ({(point.arm, name_variant(point.variant)) for point in c.points} for c in (begun, wanted))
    if asked <= known and set(wanted.seeds) <= set(begun.seeds):  # nothing is new, and no network needs to be built
        return Change(wanted, begun, begun, tuning)
    return Change(wanted, begun, begun.extend(wanted, jobs, warn), tuning)


def _read_begun(path: Path) -> Comparison | None:
    return comparisons.open_comparison(path) if (path / comparisons.FILE).exists() else None


def open_sweep(path: Path, warn: Warn = print) -> Queue:
    """Return all runs of the sweep in a folder. Raises UsageError if there is none."""
    folders = {folder: str(folder.relative_to(path)) for folder in folders_of(path)}
    return Queue(run for folder, study in folders.items() for run in comparisons.open_runs(folder, warn, study))


def open_queue(path: Path, jobs: int = 1, warn: Warn = print) -> Queue:
    """Return the runs of the sweep or comparison in a folder, to be trained `jobs` at a time.

    If a sweep tunes arms, the runs for which its search asks next are added.

    Raises UsageError if there is neither.
    """
    require_alone("a queue of runs")
    if not (path / FILE).is_file():
        return comparisons.open_runs(path, warn)
    sweep = read_record(path)
    if searches := [study for study in sweep.studies if study.search]:
        _, changes = Sweep(searches)._plan(path, jobs, sweep.command, warn, scores := PointScores(path))
        with files.lock_folder(path):
            _write_changes(path, changes, scores, jobs, warn)
    return open_sweep(path, warn)


def finish(path: Path, queue: Queue, train: Callable[[Queue], None], jobs: int = 1, warn: Warn = print) -> Queue:
    """Train the runs of the sweep or comparison in a folder, and those that its search then adds. Return all runs.

    Args:
        path: The folder.
        queue: Its runs so far.
        train: Trains the remaining runs of a queue. If it leaves some, because workers elsewhere have stopped, it is
            not called again.
        jobs, warn: As in `open_queue`.
    """
    while queue.left:
        train(queue)
        if queue.left:
            break
        queue = open_queue(path, jobs, warn)
    return queue


def add_seeds(path: Path, seeds: Seeds, jobs: int = 1, warn: Warn = print) -> Queue:
    """Add seeds to the comparison in a folder, and return all its runs.

    The arms, the settings, the fork and the plug-ins are those with which it was started. Seeds that it has already are
    not trained again, and seeds that it has not form groups of their own. Nothing but comparison.json is written.

    Args:
        path: The folder.
        seeds: The seeds to add.
        jobs: Number of simultaneous runs, for which the memory is checked.
        warn: Called with lines for the user.

    Raises:
        UsageError: There is no comparison, or it is a study of a sweep, whose file has its seeds.
    """
    if sweep := next((outer for outer in path.resolve().parents if (outer / FILE).is_file()), None):
        raise UsageError(f"{path} is a study of the sweep in {sweep}: add the seeds to its file and give it again")
    comparisons.open_comparison(path)  # before its folder is locked: there may be none
    with files.lock_folder(path):
        begun = comparisons.open_comparison(path)
        if (plan := begun.extend(replace(begun, seeds=seeds), jobs, warn)) != begun:
            comparisons.rewrite(path, plan)
    return comparisons.open_runs(path, warn)


def retry_failed(path: Path) -> None:
    """Let the failed runs of a sweep or a comparison be trained again, with this process's plug-ins.

    These may have been mended since. Runs that have not begun will be trained with them as well.

    Raises UsageError if one is missing, or if a run that has neither failed nor ended was begun with another version.
    """
    folders = folders_of(path) if (path / FILE).is_file() else [path]
    begun = [file.parent for folder in folders for file in comparisons.files_of_runs(folder, RUN)]
    ended = [file.parent for folder in folders for file in comparisons.files_of_runs(folder, OUTCOME)]
    if not any(read_outcome(run).get("outcome") == FAILED for run in ended):
        return
    for run in {*begun} - {*ended}:
        plugins.require(read_spec(run).resolved.plugins, run)
    for folder in folders:
        comparisons.rewrite(folder, plan := comparisons.open_comparison(folder, mended=True))
        for failed in plan.queue(folder).failed:
            failed.retry()


def folders_of(path: Path) -> list[Path]:
    """Return the folders of a sweep's comparisons, by study. Raises UsageError if there is no sweep."""
    return [folder for name in _studies(path) for folder in sorted(_comparisons_in(path / name))]


def _comparisons_in(study: Path) -> Iterator[Path]:
    """Yield the folders of a study's comparisons.

    The folders of their runs are not searched: checkpoints come and go there, and `Path.glob` fails if one vanishes.
    """
    for folder, inside, beside in os.walk(study):
        if comparisons.FILE in beside:
            inside[:] = {*inside} & {TUNING}
            yield Path(folder)


def read_record(path: Path) -> Sweep:
    """Return the sweep in a folder. Raises UsageError if there is none, and RunError if sweep.json is damaged."""
    record = signed_json.read_json(path / FILE, f"{path} is not a sweep")
    try:
        return msgspec.convert(record, Sweep)
    except ValueError as error:
        raise unreadable(path / FILE, error) from error


def _studies(path: Path) -> dict[str, Study]:
    return {study.name: study for study in read_record(path).studies}


def _check_places(path: Path, study: str, wanted: Iterable[str]) -> None:
    """Raise UsageError if a wanted comparison lies in the folder of one that exists, or around it.

    That is so if presets are added to the points of a study, or removed: one of the two would no longer be found.
    """
    there = [str(folder.relative_to(path)) for folder in _comparisons_in(path / study)]
    for one, other in product(map(_without_tuning, wanted), map(_without_tuning, there)):
        if one in other.parents or other in one.parents:
            raise UsageError(f"{path / other} has runs already, and {path / one} cannot be beside it: rename the study")


def _without_tuning(folder: str) -> Path:
    path = Path(folder)
    return path.parent if path.name == TUNING else path


def _check_base(study: Study, before: Study | None, path: Path) -> None:
    """Raise UsageError if a study differs from the one with which its runs were started."""
    if before is None:
        return
    for (name, value), started in zip(study.base.items(), before.base.values(), strict=True):
        if started != value:
            raise UsageError(
                f"[{study.name}] {name} is {value!r}, but the runs in {path / study.name} were started with "
                f"{started!r}: restore that value, or choose another --out"
            )
