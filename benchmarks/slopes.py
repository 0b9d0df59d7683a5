"""Which slope left of 0 keeps classifiers able to learn? The tables of slopes in docs/results/classifiers.md.

    python benchmarks/slopes.py FOLDER...        # comparisons, by `supple compare vision … --vary activation=…`

Each row of docs/results/classifiers/slopes.jsonl is a slope and a seed: its online accuracy in each task, and its test
accuracy at the end of each. Rows of the same stream are replaced. The figure has the online accuracy by slope.
"""

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rows import Row, read

from supple.experiments import load

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "classifiers"
ROWS, IMAGE = RESULTS / "slopes.jsonl", RESULTS / "slopes.png"


@dataclass
class Options:
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Without folders, only the figure is drawn."""


def main(o: Options) -> None:
    new = [row for folder in o.folders for row in rows_of(folder)]
    kept = [row for row in read(ROWS) if row["stream"] not in {row["stream"] for row in new}]
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in kept + new))
    draw(kept + new)


def rows_of(folder: Path) -> Iterator[Row]:
    stream = json.loads((folder / "comparison.json").read_text())["settings"]["stream"]
    for (arm, seed), tasks in load(folder).tasks.groupby(["arm", "seed"]):
        slope = float(str(arm).partition("negative_slope=")[2].partition(")")[0])
        accuracies = {name: tasks[f"{name}_accuracy"].round(4).tolist() for name in ("online", "test")}
        yield {"stream": stream, "slope": slope, "seed": int(seed), **accuracies}


def draw(rows: Sequence[Row]) -> None:
    """Draw the online accuracy by slope, in the first and in the last fifth of the tasks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    streams = list(dict.fromkeys(row["stream"] for row in rows))
    figure, panels = plt.subplots(1, len(streams), figsize=(4.2 * len(streams), 3.2), squeeze=False)
    for panel, stream in zip(panels[0], streams, strict=True):
        own = [row for row in rows if row["stream"] == stream]
        slopes, tasks = sorted({row["slope"] for row in own}), len(own[0]["online"])
        fifth = tasks // 5
        for name, part, colour in (("first", slice(0, fifth), "tab:orange"), ("last", slice(-fifth, None), "tab:blue")):
            means = [[100 * statistics.fmean(row["online"][part]) for row in own if row["slope"] == x] for x in slopes]
            panel.plot(slopes, [statistics.fmean(x) for x in means], color=colour, label=f"{name} {fifth} tasks")
            points = [(x, value) for x, values in zip(slopes, means, strict=True) for value in values]
            panel.plot(*zip(*points, strict=True), ".", color=colour, markersize=4)
        panel.axvspan(0.6, 0.9, color="0.92", zorder=0)
        panel.set(title=f"{stream}, {tasks} tasks", xlabel="slope of leaky ReLU left of 0")
        panel.legend(frameon=False, fontsize=8)
    panels[0][0].set_ylabel("online accuracy, %")
    figure.tight_layout()
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main(tyro.cli(Options))
