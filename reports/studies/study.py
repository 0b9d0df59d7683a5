"""Runs of one kind in variants of their settings: a single run, several side by side, or a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from supple.experiments.comparisons.folder import FILE, read_comparison
from supple.experiments.comparisons.grid import remove_repeats
from supple.experiments.history.collect import (
    by_seed,
    load_points,
    load_runs,
    missing_seeds,
    notes_of_runs,
    notes_of_seeds,
    read_specs,
    require_started,
)
from supple.experiments.history.data import ComparisonData, Row, RunData, RunsByArm
from supple.reports.tables.table import variant_text

from .side_by_side import gather

Variant = Mapping[str, Any]  # fields of the settings → values


@dataclass(frozen=True, eq=False)
class Group:
    """The arms in one variant of the settings. In `data`, steps are counted from the beginning of each run."""

    variant: Variant
    data: ComparisonData

    @property
    def words(self) -> str:
        """The variant as text, such as `learning rate 1e-05, epochs 3`; "" if nothing varies."""
        return variant_text(self.variant)


@dataclass(frozen=True, eq=False)
class ReportedStudy(RunsByArm):
    """Runs of one kind, in groups by variant.

    `arms` has the runs of each arm in all variants, with steps as logged. `trunks` has the trunks by seed. `notes` are
    sentences about missing and unfinished runs.
    """

    path: Path
    kind: str
    groups: list[Group]
    arms: dict[str, list[RunData]]
    trunks: dict[int, RunData] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def seeds(self) -> int:
        """The largest number of seeds of an arm in a variant."""
        return max(group.data.seeds for group in self.groups)

    @property
    def varied(self) -> tuple[str, ...]:
        """The settings in which variants differ."""
        return tuple(dict.fromkeys(name for group in self.groups for name in group.variant))

    @property
    def cells(self) -> list[tuple[Group, str, list[RunData]]]:
        """The cells: (variant, arm, runs)."""
        return [(group, arm, runs) for group in self.groups for arm, runs in group.data.arms.items()]

    def name(self, group: Group, arm: str) -> str:
        """Return a name for a cell: its variant, its arm, or both, as far as they differ between cells."""
        words = [group.words if len(self.groups) > 1 else "", arm if len(self.arms) > 1 else ""]
        return ", ".join(filter(None, words)) or arm


def read_study(paths: Sequence[Path]) -> ReportedStudy:
    """Read the runs of one comparison, or single runs of one kind to show side by side.

    Raises ValueError if the runs cannot be shown side by side, or a file is damaged.
    """
    if len(paths) == 1 and (paths[0] / FILE).is_file():
        study = _read_comparison(paths[0])
    else:
        (kind, data), *_ = gather(paths).items()
        study = ReportedStudy(data.path, kind, [Group({}, _count_from_start(data))], data.arms, notes=data.notes)
    for group, arm, runs in study.cells:
        for run in runs:
            if run.last_step < run.total_steps:
                label = ", ".join(filter(None, [group.words, arm, f"seed {run.seed}"]))
                ends = f"its logs end at update {run.last_step:,} of {run.total_steps:,}"
                study.notes.append(f"{label}: {run.unfinished}, {ends}; it is not included in final numbers")
    return study


def _read_comparison(path: Path) -> ReportedStudy:
    plan, specs = read_comparison(path), read_specs(path)
    points = load_points(plan, specs, load_runs)
    trunk_folders = [folder for folder, spec in specs.items() if spec.labels.arm is None]
    trunks = {run.seed: run for folder in trunk_folders for run in load_runs(folder)}
    by_arm: dict[str, list[RunData]] = {point.arm: [] for point, _ in points}
    for point, runs in points:
        by_arm[point.arm] += runs
    groups, notes = [], notes_of_seeds(by_arm) + notes_of_runs(path, specs)
    for variant in remove_repeats(point.variant for point, _ in points):
        arms = {point.arm: by_seed(runs) for point, runs in points if point.variant == variant}
        data = ComparisonData(path, {arm: runs for arm, runs in arms.items() if runs}, palette=tuple(by_arm))
        group = Group(variant, _count_from_start(data))
        for arm, runs in arms.items():
            notes += missing_seeds(", ".join(filter(None, [group.words, arm])), plan, runs)
        if data.arms:
            groups.append(group)
    arms = require_started(path, by_arm, trunks.values())
    groups = groups or [Group({}, ComparisonData(path, arms))]
    return ReportedStudy(path, plan.kind, groups, arms, trunks, notes)


def _count_from_start(data: ComparisonData) -> ComparisonData:
    return replace(data, arms={arm: list(map(_run_from_start, runs)) for arm, runs in data.arms.items()})


def _run_from_start(run: RunData) -> RunData:
    """Return a run with steps counted from its own beginning, without the part that belongs to its trunk."""
    start = run.spec.start.step
    if not start:
        return run

    def shift(rows: list[Row]) -> list[Row]:
        return [{**row, "step": row["step"] - start} for row in rows]

    tasks = [
        replace(task, start=max(0, task.start - start), end=task.end - start) for task in run.tasks if task.end > start
    ]
    return replace(
        run,
        tasks=tuple(tasks),
        metrics=shift(run.metrics),
        events=shift(run.events),
        outcomes=shift(run.outcomes),
    )
