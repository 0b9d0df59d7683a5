"""Runs of one kind in variants of their settings: a single run, several side by side, or a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...engine.storage.versions import describe_mixed
from ...experiments.comparisons.comparison import files_of_runs
from ...experiments.history.collect import (
    ComparisonData,
    Row,
    RunData,
    failures,
    load_runs,
    planned_points,
    read_object,
)
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
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.variant.items())


@dataclass(frozen=True, eq=False)
class Study:
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
    def first(self) -> RunData:
        """The first run, with steps as logged."""
        return next(iter(self.arms.values()))[0]

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


def read_study(paths: Sequence[Path]) -> Study:
    """Read the runs of one comparison, or single runs of one kind to show side by side.

    Raises ValueError if the runs cannot be shown side by side, or a file is damaged.
    """
    if len(paths) == 1 and (paths[0] / "comparison.json").is_file():
        study = _of_comparison(paths[0])
    else:
        (kind, data), *_ = gather(paths).items()
        study = Study(data.path, kind, [Group({}, _from_start(data))], data.arms, notes=data.notes)
    for group, arm, runs in study.cells:
        for run in runs:
            if run.last_step < run.total_steps:
                where = ", ".join(filter(None, [group.words, arm, f"seed {run.seed}"]))
                study.notes.append(
                    f"{where}: unfinished, its logs end at update {run.last_step:,} of {run.total_steps:,}; it is not "
                    f"included in final numbers"
                )
    return study


def _of_comparison(path: Path) -> Study:
    plan = read_object(path / "comparison.json")
    variants: list[Row] = list(plan.get("variants") or [{}])
    configs = {file.parent: read_object(file) for file in files_of_runs(path, "config.json")}
    cells: dict[tuple[int, str], list[RunData]] = {
        (variants.index(variant), arm): [] for variant, arm in planned_points(plan)
    }
    trunks: dict[int, RunData] = {}
    for folder, config in configs.items():
        runs = load_runs(folder)
        if config.get("arm") is None:
            trunks |= {run.seed: run for run in runs}
            continue
        if (variant := config.get("variant", {})) not in variants:
            variants.append(variant)
        cells.setdefault((variants.index(variant), str(config["arm"])), []).extend(runs)
    labels = tuple(dict.fromkeys(arm for _, arm in cells))
    groups = []
    notes = failures(path) + describe_mixed(
        {str(folder.relative_to(path)): config for folder, config in configs.items()}
    )
    for i, variant in enumerate(variants):
        arms = {arm: sorted(runs, key=lambda run: run.seed) for (j, arm), runs in cells.items() if i == j}
        data = ComparisonData(path, {arm: runs for arm, runs in arms.items() if runs}, palette=labels)
        group = Group(variant, _from_start(data))
        for arm, runs in arms.items():
            if missing := sorted(set(plan.get("seeds", [])) - {run.seed for run in runs}):
                where = ", ".join(filter(None, [group.words, arm]))
                notes.append(f"{where}: no run yet for seed {', '.join(map(str, missing))}")
        if data.arms:
            groups.append(group)
    if not groups:
        raise ValueError(f"{path}: no arm has started yet; expected run directories such as seed-0/<arm>/config.json")
    every = {arm: [run for (_, name), runs in cells.items() if name == arm for run in runs] for arm in labels}
    arms = {arm: runs for arm, runs in every.items() if runs}
    return Study(path, str(plan.get("algorithm", "")), groups, arms, trunks, notes)


def _from_start(data: ComparisonData) -> ComparisonData:
    return replace(data, arms={arm: [_counted(run) for run in runs] for arm, runs in data.arms.items()})


def _counted(run: RunData) -> RunData:
    """Return a run with steps counted from its own beginning, without the part that belongs to its trunk."""
    start = int(run.config.get("start_step", 0))
    if not start:
        return run

    def later(rows: list[Row]) -> list[Row]:
        return [{**row, "step": row["step"] - start} for row in rows]

    tasks = [
        replace(task, start=max(0, task.start - start), end=task.end - start) for task in run.tasks if task.end > start
    ]
    return replace(
        run,
        config={**run.config, "total_steps": run.total_steps - start},
        tasks=tuple(tasks),
        metrics=later(run.metrics),
        events=later(run.events),
        outcomes=later(run.outcomes),
    )
