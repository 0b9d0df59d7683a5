"""Which activation keeps PPO able to learn over three cycles of MuJoCo tasks? The tables of docs/results/cycling.md.

    python benchmarks/cycling.py run                     # 12M steps, an hour and a half for a seed on one core
    python benchmarks/cycling.py run --arms relu rand_smooth_leaky --seeds 0 1
    python benchmarks/cycling.py show                    # the tables, as Markdown

The stream is that of the text of Lillo & Cheney 2025 (arXiv 2509.22562, section 7): HalfCheetah, Hopper, Walker2d, Ant,
a million steps each, three times (preset `cycling-mujoco`). Activations have the shapes and learning rates of its
Table F1, interventions act on relu. Every finished run is a line in docs/results/cycling/, by cycle and environment:
the mean return of the training episodes in the last 15 % of a task, of ten episodes of the mean action after it, and of
ten with held-out friction. Runs that are there already are not repeated, and one that was cut goes on from its last
checkpoint, of which there are four per task.
"""

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rows import Row, add_missing, read
from timing import begin

from supple.agents.ppo import PPOSettings
from supple.agents.presets import CYCLING
from supple.envs.make import quiet_mujoco
from supple.experiments.results import load
from supple.experiments.runs import create, train
from supple.metrics import generalization_gap, iqm, plasticity_score

RUNS = Path(__file__).parents[1] / "docs" / "results" / "cycling" / "runs.jsonl"
ARMS: dict[str, dict[str, Any]] = {
    "relu": {"activation": "relu"},
    "leaky_relu": {"activation": "leaky_relu(negative_slope=0.8)", "learning_rate": 1e-5},
    "smooth_leaky": {"activation": "smooth_leaky(alpha=0.1,c=0.5,p=2.0)"},
    "rand_smooth_leaky": {"activation": "rand_smooth_leaky(lower=0.01,upper=0.02,c=0.1,p=1.0)"},
    "fire@task": {"hook": ("fire@task",)},
    "snp@task": {"hook": ("snp@task",)},
    "reset@task": {"hook": ("reset@task",)},
    "cbp": {"hook": ("cbp",)},
    "l2_init": {"hook": ("l2_init",)},
}
MEASURES = ("agent/dormant_fraction", "agent/srank", "agent/weight_norm")


@dataclass(frozen=True)
class Job:
    arm: str
    seed: int
    steps_per_task: int
    folders: Path

    @property
    def key(self) -> dict[str, Any]:
        return {"arm": self.arm, "seed": self.seed, "steps_per_task": self.steps_per_task}

    @property
    def settings(self) -> PPOSettings:
        own = {**CYCLING, "sequence": "cycling-text", **ARMS[self.arm], "seed": self.seed, "compile": "on"}
        own |= {"steps_per_task": self.steps_per_task, "checkpoint_every": self.steps_per_task // 4}
        return PPOSettings(**own, measure_every=self.steps_per_task)


@dataclass
class Options:
    what: Annotated[Literal["run", "show"], tyro.conf.Positional]
    arms: tuple[str, ...] = ("relu", "rand_smooth_leaky", "leaky_relu", "smooth_leaky")
    seeds: tuple[int, ...] = (0, 1, 2)
    steps_per_task: int = CYCLING["steps_per_task"]
    out: Path = RUNS
    folders: Path = Path("runs/cycling")
    """Where runs are that have not ended."""
    jobs: int = 2
    minutes: float = float("inf")
    """Begin no run after so many minutes."""


def main(o: Options) -> None:
    if o.what == "show":
        show(read(o.out))
        return
    jobs = [Job(arm, seed, o.steps_per_task, o.folders) for seed in o.seeds for arm in o.arms]
    add_missing(o.out, jobs, lambda row, job: row["job"] == job.key, one, said, o.jobs, o.minutes)


def said(row: Row) -> str:
    finals = "; ".join(" ".join(f"{value or float('nan'):.0f}" for value in cycle) for cycle in row["training"])
    return f"{' '.join(map(str, row['job'].values()))} {finals} {row['seconds']:.0f} s"


def one(job: Job) -> Row:
    begin(1)
    quiet_mujoco()
    path = job.folders / " ".join(map(str, job.key.values()))
    if not path.exists():
        create(path, "ppo", job.settings, "benchmarks/cycling.py")
    train(path, lambda step: None, print)
    results = load(path)
    (arm,), metrics, events = results.scores["arms"].values(), results.metrics, results.events
    row = {
        "job": job.key,
        "settings": {name: list(v) if isinstance(v, tuple) else v for name, v in ARMS[job.arm].items()},
        "environments": results.scores["environments"],
        "training": arm["train_return"][0],
        "evaluation": arm["evaluation_return"][0],
        "friction": arm["test_return"][0],
        "exploded": sorted({int(task) for task in events.loc[events["event"] == "explosion", "task"]}),
        "ends": {name: metrics[name].dropna().tolist() for name in MEASURES},
        "seconds": round(metrics["time"].max(), 1),
    }
    shutil.rmtree(path)
    return row


def show(rows: Sequence[Row]) -> None:
    """Print the plasticity scores, the returns of the last cycle and the changes of the gap, by arm."""
    of = {arm: found for arm in ARMS if (found := [row for row in rows if row["job"]["arm"] == arm])}
    training = {arm: array(found, "training") for arm, found in of.items()}
    exploded = {arm: np.array([marks(row) for row in found]) for arm, found in of.items()}
    scores = plasticity_score(
        {arm: x[:, -1] for arm, x in training.items()}, {a: x[:, -1] for a, x in exploded.items()}
    )
    print("| | seeds | plasticity score, IQM [95 %] |", " | ".join(rows[0]["environments"]), "|")
    print("|---|---|---|" + "---|" * len(rows[0]["environments"]))
    for arm, x in training.items():
        cells = " | ".join(", ".join(f"{value:,.0f}" for value in column) for column in x[:, -1].T)
        score = scores[arm]
        print(f"| {arm} | {len(x)} | {score.iqm:.3f} [{score.low:.3f}, {score.high:.3f}] | {cells} |")
    print(
        "\n| | "
        + " | ".join(f"cycle {1 + cycle}" for cycle in range(len(rows[0]["training"])))
        + " | change of the gap |"
    )
    print("|---|" + "---|" * (1 + len(rows[0]["training"])))
    for arm, x in training.items():
        by_cycle = " | ".join("; ".join(f"{value:,.0f}" for value in cycle) for cycle in x.mean(0))
        gaps = [generalization_gap(*cells) for cells in zip(x, array(of[arm], "friction"), exploded[arm], strict=True)]
        changes = np.concatenate([gap.change for gap in gaps])
        change = iqm(changes[np.isfinite(changes)])
        print(f"| {arm} | {by_cycle} | {change:,.0f} |")
    print(f"\n{statistics.median(row['seconds'] for row in rows) / 60:.0f} minutes a run")


def array(rows: Sequence[Row], name: str) -> np.ndarray:
    """Return the returns of some runs, (runs, cycles, environments), with NaN where no episode ended."""
    return np.array([row[name] for row in rows], dtype=float)


def marks(row: Row) -> np.ndarray:
    """Return whether physics exploded in each task, (cycles, environments)."""
    shape = np.shape(row["training"])
    return np.isin(np.arange(np.prod(shape)).reshape(shape), row["exploded"])


if __name__ == "__main__":
    main(tyro.cli(Options))
