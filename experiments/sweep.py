"""Sweeps: many comparisons in one folder, whose runs are one queue.

A study is a table of a sweep file. Its points become comparisons, ordinary ones, each in a folder of its own:

    DIR/sweep.json                 the studies, without what may be widened later
    DIR/STUDY/comparison.json      …/seed-0/learning_rate=0.001/none, as of `supple compare`
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..registry import did_you_mean
from . import comparison as comparisons
from . import files, sealed
from .comparison import Comparison, Point, slug
from .errors import RunError, UsageError
from .fields import preset_of, settings_with, value_of
from .jobs import Job, jobs_of
from .kinds import find_kind
from .loop import Warn
from .points import Space, Values
from .settings import Seeds

FILE = "sweep.json"
PRESET = "preset"  # a name in a point that is no setting
HOLE = re.compile(r"\{(\w+)\}")  # in an arm's text, or a setting's: what a point gives


@dataclass(frozen=True)
class Study:
    """One question of a sweep: which runs of one kind are compared.

    name: of its folder. settings: fields that all runs have; texts in them, and arms, may hold `{names}` of what the
    points give. arms, seeds, reference, fork_at, fork_at_task: as of `supple.experiments.compare`. space: what varies;
    a name in it is a setting, a `{name}`, or `preset`.
    """

    name: str
    kind: str
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    arms: tuple[str, ...] = ()
    seeds: Seeds | None = None
    reference: str | None = None
    fork_at: float | None = None
    fork_at_task: int | None = None
    space: Space = field(default_factory=Space)

    @property
    def base(self) -> dict[str, Any]:
        """The part that cannot change any more once runs have begun; the rest can be widened."""
        return {
            "kind": self.kind, "preset": self.preset, "settings": dict(self.settings), "reference": self.reference,
            "fork_at": self.fork_at, "fork_at_task": self.fork_at_task,
        }  # fmt: skip

    def comparisons(self, command: str, warn: Warn = print) -> dict[str, Comparison]:
        """Return the comparisons that the points come to, by their folders. Raises UsageError."""
        by_preset: dict[str | None, list[Values]] = {}
        for point in self.space.points():
            by_preset.setdefault(point.get(PRESET, self.preset), []).append(point)
        varied = any(PRESET in point for points in by_preset.values() for point in points)
        try:
            return {
                "/".join([self.name, slug(str(preset))] if varied else [self.name]): self._compared(
                    preset, points, command, warn
                )
                for preset, points in by_preset.items()
            }
        except ValueError as error:
            raise UsageError(f"[{self.name}] {error}") from error

    def _compared(self, preset: str | None, points: Sequence[Values], command: str, warn: Warn) -> Comparison:
        kind = find_kind(self.kind)
        given = preset_of(kind, preset)
        filled = {name: value for name, value in self.settings.items() if not _holes(value)}
        settings = settings_with(kind, given, filled)
        stacked = hasattr(settings, "seeds")
        if self.seeds is not None and stacked:
            settings = replace(settings, **dict[str, Any](seeds=self.seeds))
        seeds = self.seeds or (given.seeds if given else (0,))
        arms = self.arms or (given.arms if given else None) or kind.arms
        vary = comparisons.vary_of(given, settings)
        own = comparisons.points_of(arms, vary)
        return comparisons.plan(
            kind,
            given,
            settings,
            settings.members if stacked else seeds,
            [self._filled(arm, variant, point) for point in points for arm, variant in own],
            reference=self.reference or (given.reference if given else None),
            fork_at=self.fork_at,
            fork_at_task=self.fork_at_task,
            command=command,
            warn=warn,
        )

    def _filled(self, arm: str, variant: Values, point: Values) -> Point:
        """Return an arm and a variant of the settings as a point makes them. Raises UsageError for a name in it that is
        none of a setting, and stands in no text."""
        kind = find_kind(self.kind)
        holes = {name: value for name, value in self.settings.items() if _holes(value)}
        known = {hole for text in (*self.arms, *holes.values()) for hole in _holes(text)}
        fields = kind.settings_class().__dataclass_fields__.keys() - {"hook", "seed", "seeds"}
        own = {name: value for name, value in point.items() if name not in known and name != PRESET}
        if unknown := next((name for name in own if name not in fields), None):
            raise UsageError(
                f"{unknown}: {self.kind} has no setting of this name{did_you_mean(unknown, fields)}, and no arm or "
                f"setting has {{{unknown}}} in its text"
            )
        texts = {name: _fill(text, point) for name, text in holes.items()}
        typed = {name: value_of(kind, name, value) for name, value in (texts | own).items()}
        return _fill(arm, point), {**variant, **typed}


def _holes(value: Any) -> set[str]:
    """Return the names that stand in braces in a text, or in one of several."""
    if isinstance(value, list | tuple):
        return {hole for item in value for hole in _holes(item)}
    return set(HOLE.findall(value)) if isinstance(value, str) else set()


def _fill(value: Any, point: Values) -> Any:
    """Return a text in which a point's values stand in place of their names. Raises UsageError for a missing one."""
    if isinstance(value, list | tuple):
        return [_fill(item, point) for item in value]
    if missing := _holes(value) - point.keys():
        raise UsageError(f"{value}: no point has a value for {{{sorted(missing)[0]}}}")
    if alone := HOLE.fullmatch(value):
        return point[alone[1]]
    return HOLE.sub(lambda match: str(point[match[1]]), value)


@dataclass(frozen=True)
class Sweep:
    """Hold the studies of a sweep.

    sweep = Sweep([Study("lr", "ppo", settings={"env": "CartPole-v1"}, space=Space({"learning_rate": [1e-4, 1e-3]}))])
    sweep.begin(Path("runs/lr"))
    """

    studies: Sequence[Study]

    def begin(self, path: Path, jobs: int = 1, command: str = "", warn: Warn = print) -> list[Job]:
        """Make the folder of a sweep, or widen what has been begun there, and return all its runs.

        Points, arms, seeds and studies that are new are added; what is there already stays, also what the studies do
        not name any more. jobs: runs at a time, whose memory is checked. Everything is checked before anything is
        written. Raises UsageError for what cannot be trained, and for studies that are others than those that the
        folder was begun with.
        """
        before, found = self._plans(path, jobs, command, warn)
        bases = before | {study.name: study.base for study in self.studies}
        if not before:
            sealed.start_folder(path, FILE, {"studies": bases})
        with files.in_turn(path):  # of two that widen a sweep at once, the second adds to what the first has written
            if bases != before:
                sealed.write_json(path / FILE, {"studies": _bases(path) | bases})
            for folder, (begun, plan) in found.items():
                if plan != begun:
                    comparisons.rewrite(path / folder, _joined(path / folder, plan, jobs, warn)[1])
        return open_sweep(path, jobs, warn)

    def planned(self, path: Path, jobs: int = 1, warn: Warn = print) -> list[Job]:
        """Return the runs that `begin` would return, and write nothing."""
        _, found = self._plans(path, jobs, "", warn)
        return [job for folder, (_, plan) in found.items() for job in jobs_of(path / folder, plan, folder)]

    def _plans(
        self, path: Path, jobs: int, command: str, warn: Warn
    ) -> tuple[dict[str, Any], dict[str, tuple[Comparison | None, Comparison]]]:
        """Return the studies that a folder was begun with, and by folder what comparison is there now, and will be."""
        names = [study.name for study in self.studies]
        if len(set(names)) < len(names) or not names:
            raise UsageError("a sweep has one study or more, each of another name")
        before = _bases(path) if (path / FILE).exists() else {}
        found = {}
        for study in self.studies:
            _check_base(study, before.get(study.name), path)
            for folder, plan in study.comparisons(command, warn).items():
                try:
                    found[folder] = _joined(path / folder, plan, jobs, warn)
                except UsageError as error:
                    raise UsageError(f"[{study.name}] {error}") from error
        return before, found


def _joined(path: Path, plan: Comparison, jobs: int, warn: Warn) -> tuple[Comparison | None, Comparison]:
    """Return the comparison that has been begun in a folder, if there is one, and that which it is with a plan."""
    if not (path / comparisons.FILE).exists():
        return None, comparisons.checked(plan, jobs, warn)
    begun = comparisons.open_comparison(path, jobs, warn)
    return begun, comparisons.widened(begun, plan, jobs, warn)


def open_sweep(path: Path, jobs: int = 1, warn: Warn = print) -> list[Job]:
    """Return all runs of the sweep in a folder. Raises UsageError where there is none."""
    opened = {folder: comparisons.open_comparison(folder, jobs, warn) for folder in folders_of(path)}
    return [job for folder, plan in opened.items() for job in jobs_of(folder, plan, str(folder.relative_to(path)))]


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
    for name, value in study.base.items() if before else ():
        if before and before.get(name) != value:
            raise UsageError(
                f"[{study.name}] {name} is {value!r}, and the runs in {path / study.name} were begun with "
                f"{before.get(name)!r}: put it back, or give another --out"
            )
