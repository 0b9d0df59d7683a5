"""The evaluations of a study's runs as numbers per arm: at the start, at the end, and the best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from supple.engine.forks import NONE
from supple.experiments.comparisons.grid import Point, variant_text
from supple.experiments.history.data import ComparisonData, RunData, any_logged, interventions_in
from supple.reports.tables.differences import group_by
from supple.reports.tables.metrics import means_at_events
from supple.reports.tables.statistics import NAN, Spread, spread_json

PLACE = {"step", "time", "task"}  # fields of a line in metrics.jsonl that are not metrics


# One evaluated number of the runs of a cell, by seed; NaN for unfinished runs. `base`: of the model before any change;
# `first`: at the beginning of the run, after interventions at that step; `final`: after the last update; `best`: the
# smallest of all values for a loss, otherwise the largest; `gain`: final − base; `minus_none`: the final value minus
# that of the arm `none` with the same seed and variant.
Evaluated = Mapping[str, Spread]


@dataclass(frozen=True, eq=False)
class Cell:
    """One arm in one variant. `at_events` has means over its interventions, before and after."""

    label: str
    point: Point
    runs: list[RunData]
    numbers: dict[str, Evaluated]
    at_events: dict[str, float]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def words(self) -> str:
        """The variant as text."""
        return variant_text(self.point.variant)


def read_cells(data: ComparisonData) -> list[Cell]:
    """Return the numbers of every arm in every variant, in the order of the labels."""
    cells = []
    points = {label: data.point(label) for label in data.arms}
    for label, runs in data.arms.items():
        point = points[label]
        untouched = next((other for other in points if points[other] == Point(NONE, point.variant)), None)
        plain = {run.seed: run for run in data.arms.get(untouched or "", [])}
        numbers = {name: _number(name, runs, plain, point.arm) for name in evaluated_names(runs)}
        events = interventions_in(runs)
        cells.append(Cell(label, point, runs, numbers, means_at_events(events)))
    return cells


def evaluated_names(runs: Sequence[RunData]) -> list[str]:
    """Return the names of evaluated numbers in the order of the logs: `val_loss`, and parts such as `val_loss/brown`.

    Metrics of the network, such as `model/srank`, are not included.
    """
    logged = [name for run in runs for name in run.logged if name not in PLACE]
    whole = {name for name in logged if "/" not in name}
    names = dict.fromkeys(name for name in logged if name.split("/")[0] in whole)
    return [name for name in names if any_logged(runs, name)]


def compared_names(cells: Sequence[Cell]) -> list[str]:
    """Return the names of the numbers that any cell evaluated, without their parts and without training losses."""
    names = dict.fromkeys(name for cell in cells for name in cell.numbers)
    return [name for name in names if "/" not in name and name != "train_loss"]


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return short names of the parts of numbers: `val_loss/brown` → `brown`, or file names if these are unique."""
    parts = {name: name.partition("/")[2] for name in names if "/" in name}
    files = {name: Path(part).name for name, part in parts.items()}
    return files if len(set(files.values())) == len(files) else parts


def gaps(cells: Sequence[Cell]) -> list[tuple[Cell, Spread]]:
    """Return the best arm in each variant that has others than `none`, and how much lower than `none` it ends."""
    found = []
    for own in group_by(cells, lambda cell: cell.words).values():
        others = [cell for cell in own if cell.point.arm != NONE and "val_loss" in cell.numbers]
        known = [(cell, spread) for cell in others if (spread := cell.numbers["val_loss"]["minus_none"]).known.size]
        if known:
            best, spread = min(known, key=lambda each: each[1].mean)
            found.append((best, Spread(-spread.values, spread.seeds)))
    return found


def to_json(data: ComparisonData, cells: Sequence[Cell], more: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the entries of scores.json for a study. `more` has further keys for each cell.

    Keys: `supple`, `algorithm` (pretrain, sft, clip, continual or linear), `data`, `tasks`, `notes`, and `variants`, a
    list with one entry per variant of the settings: `variant` (setting → value) and `arms`: label →
        `seeds`, `updates` (as planned, from the beginning of the run), `start_step`, `finished`, `interventions`,
        `at_interventions`; for every evaluated number its `base` (of the model before any change: from the arm `none`
        if there is one), `first` (before the first update, after interventions at that step), `final`, `best`, `gain`
        (final − base) and `minus_none` (final − that of `none`, paired by seed); and for continual learning `tasks`,
        `scores` (seeds, after task, of task), `scores_before`, `op`, `bwt` (eq. 10: positive is forgetting),
        `transfer`, `average`, `last`, and the last three of these `by_task`.
        Each number has `mean`, `sd` (ddof 1), `interval` (Student's, 95 %) and `per_seed`, null for unfinished runs.
    `differences`, `verdict`: see `differences.differences_json`.
    `gaps`: for each variant of a pretraining, the final validation loss of `none` minus that of the `best_arm`.
    """
    entries = {
        cell.label: _cell_json(cell) | added for cell, added in zip(cells, more or [{}] * len(cells), strict=True)
    }
    variants: list[dict[str, Any]] = []
    for own in group_by(cells, lambda cell: cell.words).values():
        arms = {cell.point.arm: entries[cell.label] for cell in own}
        variants.append({"variant": dict(own[0].point.variant), "arms": arms})
    return {
        "data": data.first.spec.resolved.data,
        "tasks": [task.name for task in data.first.as_logged.tasks],
        "variants": variants,
        "gaps": [
            {"variant": dict(best.point.variant), "best_arm": best.point.arm, **spread_json(spread)}
            for best, spread in gaps(cells)
        ],
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {
        "seeds": cell.seeds,
        "updates": [run.total_steps for run in cell.runs],
        "start_step": [run.spec.start.step for run in cell.runs],
        "finished": [run.last_step >= run.total_steps for run in cell.runs],
        **{name: _number_json(number) for name, number in cell.numbers.items()},
        "interventions": sum(len(run.of_kind("intervention")) for run in cell.runs),
        "at_interventions": cell.at_events,
    }


def _number_json(number: Evaluated) -> dict[str, Any]:
    return {which: spread_json(spread) for which, spread in number.items()}


def _number(name: str, runs: Sequence[RunData], plain: dict[int, RunData], arm: str) -> Evaluated:
    final, best = [_final(run, name) for run in runs], [_best(run, name) for run in runs]
    base, first = [_first(plain.get(run.seed, run), name) for run in runs], [_first(run, name) for run in runs]
    others = [_final(plain[run.seed], name) if arm != NONE and run.seed in plain else NAN for run in runs]
    values = {"base": base, "first": first, "final": final, "best": best}
    values["gain"], values["minus_none"] = np.subtract(final, base).tolist(), np.subtract(final, others).tolist()
    seeds = [run.seed for run in runs]
    return {which: Spread(np.array(of_seeds, dtype=np.float64), seeds) for which, of_seeds in values.items()}


def _best(run: RunData, name: str) -> float:
    """Return the smallest evaluation of a loss, otherwise the largest; NaN for an unfinished run."""
    extreme = np.min if "loss" in name else np.max
    return float(extreme(run.series(name)[1])) if np.isfinite(_final(run, name)) else NAN


def _first(run: RunData, name: str) -> float:
    """Return the evaluation before the first update."""
    steps, values = run.series(name)
    return float(values[0]) if steps.size and steps[0] == 0 else NAN


def _final(run: RunData, name: str) -> float:
    """Return the evaluation after the last update; NaN for an unfinished run."""
    steps, values = run.series(name)
    return float(values[-1]) if steps.size and steps[-1] == run.total_steps else NAN
