"""From the runs of a study to numbers: what they evaluated, at the start, at the end and at its best, per arm."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fork import NONE
from .collect import RunData
from .numbers import NAN, Spread, means_at_events, spread_json, strict
from .study import Group, Study

Array = NDArray[np.float64]
PLACE = {"step", "time", "task"}  # in a line of metrics.jsonl, what is no number of the network's


@dataclass(frozen=True, eq=False)
class Number:
    """Hold what the runs of a cell evaluated under one name, one a seed; NaN for runs that are not at their end.

    base: of the model before anything was done to it. first: when the run began, after what intervened then.
    best: the smallest of all evaluations, or the largest of what is no loss. minus_none: final − that of the arm `none`
    with the same seed and variant.
    """

    base: Spread
    first: Spread
    final: Spread
    best: Spread
    minus_none: Spread

    @property
    def gain(self) -> Spread:
        """final − base."""
        return Spread(self.final.values - self.base.values)


@dataclass(frozen=True, eq=False)
class Cell:
    """One arm in one variant. at_events: means over interventions, before and after."""

    group: Group
    arm: str
    runs: list[RunData]
    numbers: dict[str, Number]
    at_events: dict[str, float]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)


@dataclass(frozen=True)
class Gap:
    """Hold how much lower the best other arm of a variant ends than `none`, mean over the seeds that both have."""

    group: Group
    arm: str
    spread: Spread


def score(study: Study) -> list[Cell]:
    """Return every arm in every variant, in the order of `Study.cells`."""
    cells = []
    for group, arm, runs in study.cells:
        plain = {run.seed: run for run in group.data.arms.get(NONE, [])}
        numbers = {name: _number(name, runs, plain, arm) for name in evaluated(runs)}
        events = [event for run in runs for event in run.of_kind("intervention")]
        cells.append(Cell(group, arm, runs, numbers, means_at_events(events)))
    return cells


def evaluated(runs: Sequence[RunData]) -> list[str]:
    """Return names of what runs evaluated, in the order of their logs: `val_loss`, and its parts such as
    `val_loss/brown`. Measured metrics, `model/srank`, are none of them."""
    logged = [name for run in runs for row in run.metrics for name in row if name not in PLACE]
    whole = {name for name in logged if "/" not in name}
    found = dict.fromkeys(name for name in logged if name.split("/")[0] in whole)
    return [name for name in found if any(run.series(name)[0].size for run in runs)]


def evaluated_in(cells: Sequence[Cell]) -> list[str]:
    """Return the names of the whole numbers, without their parts, that any cell evaluated, but for training losses."""
    names = dict.fromkeys(name for cell in cells for name in cell.numbers)
    return [name for name in names if "/" not in name and name != "train_loss"]


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return what to call the parts of a number, `val_loss/brown` → `brown`; files by name, where these differ."""
    parts = {name: name.partition("/")[2] for name in names if "/" in name}
    files = {name: Path(part).name for name, part in parts.items()}
    return files if len(set(files.values())) == len(files) else parts


def finished(run: RunData) -> bool:
    return run.last_step >= run.total_steps


def gaps(study: Study, cells: Sequence[Cell], name: str = "val_loss") -> list[Gap]:
    """Return the gap of `none` to the best other arm in each variant that has both; name: of a loss."""
    found = []
    for group in study.groups:
        others = {
            cell.arm: cell.numbers[name].minus_none
            for cell in cells
            if cell.group is group and cell.arm != NONE and name in cell.numbers
        }
        known = {arm: spread for arm, spread in others.items() if spread.known.size}
        if known:
            best = min(known, key=lambda arm: known[arm].mean)
            found.append(Gap(group, best, Spread(-known[best].values)))
    return found


def to_json(study: Study, cells: Sequence[Cell], more: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return what scores.json holds of a study. more: further keys of each cell's arm.

    Keys: `supple`, `algorithm` (pretrain, sft, clip, continual or linear), `data`,
    `tasks`, `notes`, and `variants`, one for each variant of the settings: `variant` (setting → value) and
    `arms`: label →
        `seeds`, `updates` (as planned, from where the run began), `start_step`, `finished`, `interventions`,
        `at_interventions`; for every number that was evaluated its `base` (the model before anything was done to it: of
        the arm `none`, where there is one), `first` (before the first update, after what intervened then), `final`,
        `best`, `gain` (final − base) and `minus_none` (final − that of `none`, paired by seed); and of continual
        learning `tasks`, `scores` (seeds, after task, of task), `scores_before`, `op`, `bwt` (eq. 10: positive is
        forgotten), `transfer`, `average`, `last` and the last three `by_task`.
        Each is `mean`, `sd` (unbiased), `interval` (Student's, 95 %) and `per_seed`; null for runs that are not at
        their end.
    `differences`, `verdict`: see `differences.to_json`.
    `gaps`: for each variant of a pretraining, `none` − the `best_arm`'s final validation loss.
    """
    extra = list(more) or [{} for _ in cells]
    variants = [
        {
            "variant": dict(group.variant),
            "arms": {
                cell.arm: _cell_json(cell) | added
                for cell, added in zip(cells, extra, strict=True)
                if cell.group is group
            },
        }
        for group in study.groups
    ]
    config = study.first.config
    plain: dict[str, Any] = strict(
        {
            "supple": study.first.supple,
            "algorithm": study.kind,
            "data": config.get("data"),
            "tasks": [task.name for task in study.first.tasks],
            "notes": study.notes,
            "variants": variants,
            "gaps": [
                {"variant": dict(gap.group.variant), "best_arm": gap.arm, **spread_json(gap.spread)}
                for gap in gaps(study, cells)
            ],
        }
    )
    return plain


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {
        "seeds": cell.seeds,
        "updates": [run.total_steps for run in cell.runs],
        "start_step": [int(run.config.get("start_step", 0)) for run in cell.runs],
        "finished": [finished(run) for run in cell.runs],
        **{
            name: {
                "base": spread_json(number.base),
                "first": spread_json(number.first),
                "final": spread_json(number.final),
                "best": spread_json(number.best),
                "gain": spread_json(number.gain),
                "minus_none": spread_json(number.minus_none),
            }
            for name, number in cell.numbers.items()
        },
        "interventions": sum(len(run.of_kind("intervention")) for run in cell.runs),
        "at_interventions": cell.at_events,
    }


def _number(name: str, runs: Sequence[RunData], plain: dict[int, RunData], arm: str) -> Number:
    extreme = np.min if "loss" in name else np.max
    final = [_final(run, name) for run in runs]
    others = [_final(plain[run.seed], name) if arm != NONE and run.seed in plain else NAN for run in runs]
    return Number(
        base=_spread(_first(plain.get(run.seed, run), name) for run in runs),
        first=_spread(_first(run, name) for run in runs),
        final=_spread(final),
        best=_spread(
            float(extreme(run.series(name)[1])) if np.isfinite(f) else NAN for run, f in zip(runs, final, strict=True)
        ),
        minus_none=Spread(np.array(final) - np.array(others)),
    )


def _spread(values: Any) -> Spread:
    return Spread(np.array(list(values), dtype=np.float64))


def _first(run: RunData, name: str) -> float:
    """The evaluation before the first update."""
    steps, values = run.series(name)
    return float(values[0]) if steps.size and steps[0] == 0 else NAN


def _final(run: RunData, name: str) -> float:
    """The evaluation after the last update; NaN if the run has not come there."""
    steps, values = run.series(name)
    return float(values[-1]) if steps.size and steps[-1] == run.total_steps else NAN
