"""Draw the figures of the results pages that no report has: of rows, or of a sweep.

python docs/suite_figures.py learning                        # of the rows in docs/results
python docs/suite_figures.py slopes runs/slopes              # of `supple sweep slopes --out runs/slopes`
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))
from suite_rows import PARTS, RESULTS
from suites import read

matplotlib.use("Agg")
import matplotlib.pyplot as plt

IMAGES = Path(__file__).parent / "images"
COLOURS = ("C1", "C0", "C2", "C3", "C4", "C5", "black", "C6", "C8")  # of matplotlib's own cycle, and black
LEARNING = {  # study → its file, its steps, and the arms that are drawn by their names
    "ppo": ("learning-ppo-303k", 303_104, {"sb3": "Stable-Baselines3", "none": "supple, defaults"}),
    "ppo-million": ("learning-ppo-1000k", 1_000_000, {"sb3": "Stable-Baselines3", "none": "supple, defaults"}),
    "sac": (
        "learning-sac-100k",
        100_000,
        {"sb3": "Stable-Baselines3", "none": "supple, clipped", "none + log_std=squashed": "supple, squashed"},
    ),
}
NETWORKS = {"simba": "SimBa", "simba-v2": "SimBaV2", "flash": "FlashSAC", "crossq": "CrossQ"}
LEVELS = {  # arm → a pattern of its labels in gym-control, since its settings differ between worlds
    "none, 1e-3": r"none(?: \+ learning_rate=0\.001)?",
    "trac": r"trac\b.*",
    "chain": r"chain\b.*",
    "l2_init": r"l2_init\b.*",
    "fire@task": r"fire(?:\(steps=5\))?@task",
    "fresh agent": "fresh",
}
Curves = tuple[Any, Any]  # x of shape (points,), and one line of numbers per seed, (seeds, points)


def learning(frame: pd.DataFrame) -> None:
    """Draw the mean training return over the steps, of the arms in `LEARNING`."""
    for study, (name, steps, arms) in LEARNING.items():
        panels: dict[str, dict[str, Curves]] = {}
        for label, of_arm in frame[frame["study"] == study].groupby("arm", sort=False):
            env, _, arm = label.partition(" · ")
            if arm in arms and (curve := curve_of(of_arm, steps)):
                panels.setdefault(env.removeprefix("env="), {})[arms[arm]] = curve
        if panels:
            draw(IMAGES / f"{name}.png", panels, "thousand environment steps", "mean training return")


def networks(frame: pd.DataFrame) -> None:
    """Draw the mean training return of SAC with four networks on HalfCheetah, beside that of Stable-Baselines3."""
    peer = read("learning")
    of = {text: frame[frame["study"] == f"cheetah-{name}"] for name, text in NETWORKS.items()}
    of["Stable-Baselines3"] = peer[(peer["study"] == "sac") & (peer["arm"] == "env=HalfCheetah-v5 · sb3")]
    curves = {text: curve for text, own in of.items() if (curve := curve_of(own, 100_000))}
    draw(IMAGES / "sac-networks.png", {"HalfCheetah-v5": curves}, "thousand environment steps", "mean training return")


def curve_of(rows: pd.DataFrame, steps: int) -> Curves | None:
    """Return the learning curve of the rows of one arm, if they have one."""
    columns = [f"part {part}" for part in range(1, PARTS + 1)]
    own = rows[rows["column"].isin(columns)]
    at = (np.arange(PARTS) + 0.5) * steps / PARTS / 1000
    return None if own.empty else (at, own.pivot(index="seed", columns="column", values="value")[columns].to_numpy())


def games(frame: pd.DataFrame) -> None:
    """Draw the return at the end of each game, divided by the mean of the fresh agents'."""
    own = frame[frame["column"] != "sum of shares"]
    names = own["column"].unique()
    fresh = own[own["arm"] == "fresh"].groupby("column")["value"].mean()[names].to_numpy()
    curves = {
        arm: (names, of.pivot(index="seed", columns="column", values="value")[names].to_numpy() / fresh)
        for arm, of in own.groupby("arm", sort=False)
    }
    panels = {"return at the end of each game": curves}
    draw(IMAGES / "minatar-ppo.png", panels, "", "share of a fresh agent's", width=7)


def levels(frame: pd.DataFrame) -> None:
    """Draw the mean return of each level, of the arms in `LEVELS`."""
    own = frame[frame["column"].str.match("level ") & (frame["study"] != "published")]
    own = own.assign(level=own["column"].str.removeprefix("level ").astype(int))
    panels: dict[str, dict[str, Curves]] = {}
    for env in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0"):
        for label, pattern in LEVELS.items():
            of_arm = own[own["arm"].str.fullmatch(rf"env={env} · {pattern}")]
            table = of_arm.pivot(index="seed", columns="level", values="value")
            panels.setdefault(env, {})[label] = table.columns.to_numpy(), table.to_numpy()
    draw(IMAGES / "gym-control-levels.png", panels, "level", "mean return")


def half_millions(name: str) -> Callable[[pd.DataFrame], None]:
    """Return a function that draws the return and each metric of a suite by half a million of steps."""

    def figure(frame: pd.DataFrame) -> None:
        found = frame["column"].str.extract(r"^part (?P<part>\d+) (?P<what>.+)$")
        first = frame["study"] == frame["study"].iloc[0]
        arm = frame["arm"].where(first, frame["study"] + ", " + frame["arm"])
        panels: dict[str, dict[str, Curves]] = {}
        for (what, label), own in frame.assign(**found, arm=arm).groupby(["what", "arm"], sort=False):
            table = own.assign(part=own["part"].astype(int)).pivot(index="seed", columns="part", values="value")
            table = table.reindex(columns=range(min(table), max(table) + 1))  # gaps where an arm was not trained
            scale = 100 if what.endswith("%") else 1
            panels.setdefault(what, {})[label] = (table.columns.to_numpy() - 0.5) / 2, scale * table.to_numpy()
        draw(IMAGES / f"{name}.png", panels, "million environment steps", "")

    return figure


def slopes(frame: pd.DataFrame) -> None:
    """Draw the online accuracy by slope, in the first and in the last fifth of the tasks."""
    frame = frame.assign(slope=frame["arm"].str.extract(r"negative_slope=([\d.]+)")[0].astype(float))
    panels: dict[str, dict[str, Curves]] = {}
    for study, own in frame.groupby("study", sort=False):
        for part in ("first fifth", "last fifth"):
            values = own[own["column"] == f"online accuracy, {part}, %"]
            table = values.pivot(index="seed", columns="slope", values="value")
            panels.setdefault(study, {})[f"{part} of the tasks"] = table.columns.to_numpy(), 100 * table.to_numpy()
    draw(RESULTS / "classifiers" / "slopes.png", panels, "slope of leaky ReLU left of 0", "online accuracy, %")


def draw(path: Path, panels: Mapping[str, Mapping[str, Curves]], x: str, y: str, width: float = 3.8) -> None:
    """Draw a line for each mean over seeds, with the seeds behind it, in one panel for each environment or stream."""
    size = width * len(panels) + 1.7, 3.1
    figure, grid = plt.subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
    for axes, (title, lines) in zip(grid[0], panels.items(), strict=True):
        for (label, (at, values)), colour in zip(lines.items(), COLOURS, strict=False):
            axes.plot(at, values.T, color=colour, alpha=0.3, linewidth=0.8)
            axes.plot(at, pd.DataFrame(values).mean(), color=colour, linewidth=2, label=label)
        axes.set(title=title, xlabel=x)
    grid[0][0].set_ylabel(y)
    figure.legend(*grid[0][0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside right upper")
    figure.savefig(path, dpi=110)
    plt.close(figure)


FIGURES = {
    "learning": learning,
    "slopes": slopes,
    "sac-networks": networks,
    "minatar-ppo": games,
    "gym-control": levels,
    "slippery-ant": half_millions("slippery-ant"),
    "ppo-epochs": half_millions("ppo-epochs"),
}

if __name__ == "__main__":
    name, *folder = sys.argv[1:]
    FIGURES[name](read(name, Path(folder[0]) if folder else None))
