"""Write what the runs of a comparison did in each part of each task: the scores of docs/results/worlds/*.parts.jsonl.

    python benchmarks/parts.py runs/nine-rooms docs/results/worlds/nine-rooms.parts.jsonl --parts 4 --limit 100

A line is one part of one task of one run: the number of episodes that ended in it, and their mean return; with
`--limit`, the share of them that were shorter than the time limit, and so reached their goal; with `--metrics`, the
last, lowest and highest value of each.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from supple.experiments import load


@dataclass
class Options:
    folder: Annotated[Path, tyro.conf.Positional]
    out: Annotated[Path, tyro.conf.Positional]
    parts: int = 1
    """Equal parts of each task."""
    limit: int | None = None
    metrics: tuple[str, ...] = ()


def main(o: Options) -> None:
    results = load(o.folder)
    (data,) = results.studies.values()
    rows = []
    for arm, runs in data.arms.items():
        for run in runs:
            episodes = results.episodes.query("arm == @arm and seed == @run.seed")
            for task in run.tasks:
                for part in range(o.parts):
                    start, end = (task.start + (task.end - task.start) * k // o.parts for k in (part, part + 1))
                    inside = episodes[(episodes["step"] > start) & (episodes["step"] <= end)]
                    row: dict[str, Any] = {"arm": arm, "seed": run.seed, "task": task.index, "part": part}
                    row |= {"episodes": len(inside), "return": mean_or_none(inside["return"])}
                    if o.limit is not None:
                        row["reached"] = mean_or_none(inside["length"] < o.limit)
                    for name in o.metrics:
                        steps, values = run.series(name)
                        if len(own := values[(steps > start) & (steps <= end)]):
                            found = {"last": own[-1], "lowest": own.min(), "highest": own.max()}
                            row[name] = {key: round_to_six_digits(value) for key, value in found.items()}
                    rows.append(row)
    o.out.write_text("".join(json.dumps(row) + "\n" for row in rows))


def mean_or_none(values: Any) -> float | None:
    """Return the mean, or None if there are no values."""
    return round_to_six_digits(values.mean()) if len(values) else None


def round_to_six_digits(value: float) -> float:
    """Return the number to six digits."""
    return float(f"{value:.6g}")


if __name__ == "__main__":
    main(tyro.cli(Options))
