"""Which activation keeps PPO able to learn over three cycles of MuJoCo tasks? The tables of docs/results/cycling.md.

    python benchmarks/cycling.py run                     # 12M steps, two hours for a seed on one core
    python benchmarks/cycling.py run --arms relu rand_smooth_leaky --seeds 0 1
    python benchmarks/cycling.py show                    # the tables, as Markdown, and their numbers: scores.json

The stream is that of the text of Lillo & Cheney 2025 (arXiv 2509.22562, section 7): HalfCheetah, Hopper, Walker2d, Ant,
a million steps each, three times (preset `cycling-mujoco`). Activations have the shapes and learning rates of its
Table F1, interventions act on relu. Every finished run is a line in docs/results/cycling/, by cycle and environment:
the mean return of the training episodes in the last 15 % of a task, of ten episodes of the mean action after it, and of
ten with held-out friction. Runs that are there already are not repeated, and one that was cut goes on from its last
checkpoint, of which there are four per task.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from rows import Row, add_missing, read
from timing import begin

from supple.agents.ppo import PPOSettings
from supple.agents.presets import CYCLING
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.envs.make import quiet_mujoco
from supple.experiments.results import load
from supple.metrics import generalization_gap, iqm, plasticity_score
from supple.reports.tables.statistics import strict_json

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
        show(read(o.out), o.out.with_name("scores.json"))
        return
    jobs = [Job(arm, seed, o.steps_per_task, o.folders) for seed in o.seeds for arm in o.arms]
    add_missing(o.out, jobs, lambda row, job: row["job"] == job.key, train_one, describe_job, o.jobs, o.minutes)


def describe_job(row: Row) -> str:
    finals = "; ".join(" ".join(f"{value or float('nan'):.0f}" for value in cycle) for cycle in row["training"])
    return f"{' '.join(map(str, row['job'].values()))} {finals} {row['seconds']:.0f} s"


def train_one(job: Job) -> Row:
    begin(1)
    quiet_mujoco()
    path = job.folders / " ".join(map(str, job.key.values()))
    if not path.exists():
        prepare(RunSpec("ppo", job.settings, command="benchmarks/cycling.py"), path).close()
    open_run(path, print).train(lambda step: None)
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


def show(rows: Sequence[Row], out: Path) -> None:
    """Print the tables of the arms that have rows, and write their numbers to `out`."""
    scores = summarize(rows)
    out.write_text(json.dumps(strict_json(scores), indent=1, allow_nan=False) + "\n")
    names, cycles, arms = scores["environments"], scores["cycles"], scores["arms"].items()
    make_table(
        ["plasticity score, IQM [95 % interval]", "seeds"], {arm: [format_score(x), len(x["seeds"])] for arm, x in arms}
    )
    make_table(names, {arm: [format_spread(env[cycles[-1]]) for env in x["returns"].values()] for arm, x in arms})
    make_table(
        names,
        {
            arm: ["; ".join(f"{np.mean(runs):,.0f}" for runs in env.values()) for env in x["returns"].values()]
            for arm, x in arms
        },
    )
    make_table(cycles, {arm: [f"{100 * np.mean(runs):.0f} %" for runs in x["dormant"].values()] for arm, x in arms})
    make_table(cycles, {arm: [f"{np.mean(runs):.0f}" for runs in x["srank"].values()] for arm, x in arms})
    make_table(
        [*names, "IQM"],
        {
            arm: [*map(format_spread, x["change_of_the_gap"].values()), f"{x['change_of_the_gap_iqm']:,.0f}"]
            for arm, x in arms
        },
    )
    print(f"{median(row['seconds'] for row in rows) / 60:.0f} minutes a run")


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the numbers of the tables. Lists of runs are in the order of the seeds."""
    rows = sorted(rows, key=lambda row: row["job"]["seed"])
    environments = rows[0]["environments"]
    cycles = [f"cycle {1 + cycle}" for cycle in range(len(rows[0]["training"]))]
    of = {arm: found for arm in ARMS if (found := [row for row in rows if row["job"]["arm"] == arm])}
    training = {arm: returns_of(found, "training") for arm, found in of.items()}
    friction = {arm: returns_of(found, "friction") for arm, found in of.items()}
    exploded = {arm: np.array([find_explosions(row) for row in found]) for arm, found in of.items()}
    late = {arm: x[:, -1] for arm, x in training.items()}
    scores = plasticity_score(late, {arm: x[:, -1] for arm, x in exploded.items()})
    arms = {}
    for arm, found in of.items():
        gaps = [generalization_gap(*run) for run in zip(training[arm], friction[arm], exploded[arm], strict=True)]
        changes = np.array([gap.change for gap in gaps])
        means = changes.mean(0)
        by_environment = zip(environments, training[arm].transpose(2, 0, 1), strict=True)  # (runs, cycles) each
        arms[arm] = {
            "seeds": [row["job"]["seed"] for row in found],
            "plasticity_score": {"iqm": scores[arm].iqm, "low": scores[arm].low, "high": scores[arm].high},
            "returns": {env: dict(zip(cycles, x.T, strict=True)) for env, x in by_environment},
            "change_of_the_gap": dict(zip(environments, changes.T, strict=True)),
            "change_of_the_gap_iqm": iqm(means[np.isfinite(means)]),  # over environments, as in Table F3
            "dormant": dict(zip(cycles, mean_at_ends(found, "agent/dormant_fraction"), strict=True)),
            "srank": dict(zip(cycles, mean_at_ends(found, "agent/srank"), strict=True)),
        }
    return {"environments": environments, "cycles": cycles, "arms": arms}


def mean_at_ends(rows: Sequence[Row], measure: str) -> np.ndarray:
    """Return the mean of a measure over the ends of the tasks of a cycle, (cycles, runs)."""
    measured = np.array([row["ends"][measure] for row in rows])
    return measured.reshape(len(rows), len(rows[0]["training"]), -1).mean(-1).T


def format_spread(runs: Sequence[float]) -> str:
    """Return mean ± standard deviation, or the mean of a single run."""
    return f"{np.mean(runs):,.0f}" + (f" ± {np.std(runs, ddof=1):,.0f}" if len(runs) > 1 else "")


def format_score(arm: dict[str, Any]) -> str:
    """Return a plasticity score and its interval, which a single run does not have."""
    iqm, low, high = arm["plasticity_score"].values()
    return f"{iqm:.2f}" + (f" [{low:.2f}, {high:.2f}]" if len(arm["seeds"]) > 1 else "")


def make_table(columns: Sequence[str], lines: dict[str, Sequence[object]]) -> None:
    print("| arm |", " | ".join(columns), "|")
    print("|---|" + "---|" * len(columns))
    for arm, cells in lines.items():
        print(f"| `{arm}` |", " | ".join(map(str, cells)), "|")
    print()


def returns_of(rows: Sequence[Row], name: str) -> np.ndarray:
    """Return the returns of some runs, (runs, cycles, environments), with NaN where no episode ended."""
    return np.array([row[name] for row in rows], dtype=float)


def find_explosions(row: Row) -> np.ndarray:
    """Return whether physics exploded in each task, (cycles, environments)."""
    shape = np.shape(row["training"])
    return np.isin(np.arange(np.prod(shape)).reshape(shape), row["exploded"])


if __name__ == "__main__":
    main(tyro.cli(Options))
