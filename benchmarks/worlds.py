"""Which method keeps an agent able to learn on Continual Gym Control? The table of docs/results/gym_control.md.

    python benchmarks/worlds.py tune cartpole            # seeds 100 to 102, levels 0 and 1, three points for every arm
    python benchmarks/worlds.py run cartpole             # seeds 0 to 5, ten levels, each arm at its best point
    python benchmarks/worlds.py show cartpole            # the tables, as Markdown

The table is at width 128, TRAC's; --width 256 is C-CHAIN's, for the columns that it published.

Every finished run is one line in docs/results/worlds/, with the mean over a level's rollouts of their mean episode
return, level by level; runs that are there already are not repeated. One rule of tuning for all arms: of three points
each, the best mean over levels 0 and 1 (the first fifth of the lifetime); results are of seeds that nothing was chosen
on. `none`, and what changes the network or the optimizer, is tuned over step sizes; a method over its own strength.
"""

import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rows import Row, add_missing, read

from supple.agents.ppo import PPOSettings
from supple.agents.presets import GYM_CONTROL
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.metrics import t_interval

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "worlds"
WORLDS: dict[str, dict[str, Any]] = {
    "cartpole": {"env": "CartPole-v1"},
    "acrobot": {"env": "Acrobot-v1"},
    "lunarlander": {"env": "LunarLander-v3", "cycles": 3},
}
STEP_SIZES = ({"learning_rate": 3e-4}, {"learning_rate": 1e-3}, {"learning_rate": 3e-3})


def hooks(*texts: str) -> tuple[dict[str, Any], ...]:
    return tuple({"hook": (text,)} for text in texts)


def stepped(**settings: Any) -> tuple[dict[str, Any], ...]:
    return tuple({**settings, **size} for size in STEP_SIZES)


# arm → its three points: fields of the settings
ARMS: dict[str, tuple[dict[str, Any], ...]] = {
    "none": STEP_SIZES,
    "fresh": ({"fresh": True, "learning_rate": 1e-3},),  # the oracle, as published
    "reset@task": stepped(hook=("reset@task",)),
    "fire@task": hooks("fire@task", "fire(scope=hidden)@task", "fire(steps=5)@task"),
    "snp@task": hooks("snp(lam=0.5)@task", "snp(lam=0.8)@task", "snp(lam=0.95)@task"),
    "l2_init": hooks("l2_init(strength=1e-4)", "l2_init(strength=1e-3)", "l2_init(strength=1e-2)"),
    "weight_clip": hooks("weight_clip(kappa=1)", "weight_clip(kappa=2)", "weight_clip(kappa=3)"),
    "redo": hooks("redo(tau=0.025)@every:8000", "redo(tau=0.1)@every:8000", "redo(tau=0.1)@every:800"),
    "cbp": hooks("cbp(replacement_rate=1e-5)", "cbp(replacement_rate=1e-4)", "cbp(replacement_rate=1e-3)"),
    "parseval": hooks("parseval(strength=1e-4)", "parseval(strength=1e-3)", "parseval(strength=1e-2)"),
    "nap": stepped(hook=("nap",)),
    "trac": stepped(hook=("trac",)),
    "chain": hooks("chain(strength=10)", "chain(strength=100)", "chain(strength=1000)"),
    "l2_er": hooks("l2_er(rate=1e-4)", "l2_er(rate=1e-3)", "l2_er(rate=1e-2)"),
    "regrama": hooks("regrama(tau=0.01)@every:8000", "regrama(tau=0.1)@every:8000", "regrama(tau=0.1)@every:800"),
    "regrama, outgoing 0": hooks(
        "regrama(tau=0.01,outgoing=zero)@every:8000",
        "regrama(tau=0.1,outgoing=zero)@every:8000",
        "regrama(tau=0.1,outgoing=zero)@every:800",
    ),
    "cpr": hooks("cpr(rate=0.005)", "cpr(rate=0.015)", "cpr(rate=0.05)"),
    "spectral": hooks("spectral(strength=1e-4)", "spectral(strength=1e-3)", "spectral(strength=1e-2)"),
    "wasserstein": hooks("wasserstein(strength=1e-4)", "wasserstein(strength=1e-3)", "wasserstein(strength=1e-2)"),
    "soft_snp": hooks("soft_snp(epsilon=1e-6)", "soft_snp(epsilon=1e-5)", "soft_snp(epsilon=1e-4)"),
    "adam_rel@task": stepped(hook=("adam_rel@task",)),
    "adam_rel": stepped(hook=("adam_rel@every:800",)),  # at every rollout, as the paper's PPO
    "reset(optimizer)@task": stepped(hook=("reset(what=optimizer)@task",)),
    "fire@when": tuple(
        {"hook": (f"fire@when:policy/entropy<{h},least=8000",), "measure_every": 800} for h in (0.005, 0.02, 0.1)
    ),
    "LayerNorm": stepped(normalization="layer"),
    "beta .99/.99": stepped(adam_betas=(0.99, 0.99)),
}
# C-CHAIN's table (Tang et al. 2025), width 256
PUBLISHED = {
    "cartpole": {"none": 61.8, "fresh": 299.9, "l2_init": 266.1, "trac": 217.4, "chain": 160.4, "weight_clip": 154.3},
    "acrobot": {"none": -372.7, "fresh": -125.7, "l2_init": -134.0, "trac": -166.6, "chain": -119.2,
                "weight_clip": -118.8},
}  # fmt: skip
PUBLISHED_STEP_SIZE = STEP_SIZES[1]
STUCK = {"cartpole": 10.0, "acrobot": -395.0}  # returns up to these are those of a policy with one action
# arms in the tables, where their names need more words
LONG = {
    "none": "no intervention",
    "fresh": "fresh agent",
    "LayerNorm": "PPO with LayerNorm",
    "beta .99/.99": "PPO with β .99/.99",
}
# arms that are told when the world changes
TOLD = ("reset@task", "fire@task", "snp@task", "adam_rel@task", "reset(optimizer)@task", "fresh")


@dataclass(frozen=True)
class Job:
    world: str
    arm: str
    point: int
    seed: int
    levels: int
    width: int

    @property
    def settings(self) -> PPOSettings:
        own = {**GYM_CONTROL, **WORLDS[self.world], **ARMS[self.arm][self.point]}
        own |= {"cycles": self.levels, "seed": self.seed, "hidden": (self.width,) * 3}
        own |= {"compile": "on", "checkpoint_every": 10**9}
        own.setdefault("measure_every", own["steps_per_task"])
        return PPOSettings(**own)

    @property
    def key(self) -> list[Any]:
        return [self.arm, self.point, self.seed, self.levels, self.width]


@dataclass
class Options:
    what: Annotated[Literal["tune", "run", "show"], tyro.conf.Positional]
    world: Annotated[Literal["cartpole", "acrobot", "lunarlander"], tyro.conf.Positional]
    arms: tuple[str, ...] = tuple(ARMS)
    seeds: tuple[int, ...] = ()
    """Default: 100 to 102 for tuning, 0 to 5 for results (LunarLander 0 to 2)."""
    width: int = 128
    jobs: int = 2
    minutes: float = float("inf")
    """Begin no run after so many minutes."""
    point: dict[str, int] = field(default_factory=dict)
    """Points to run instead of the best of tuning, by arm."""


def main(o: Options) -> None:
    tuning = FOLDER / f"{o.world}.tuning.jsonl"
    results = FOLDER / (f"{o.world}.jsonl" if o.width == 128 else f"{o.world}-{o.width}.jsonl")
    if o.what == "show":
        show(o.world, read(tuning), read(results))
        return
    if o.what == "tune":
        seeds = o.seeds or (100, 101, 102)
        jobs = [Job(o.world, arm, p, s, 2, o.width) for s in seeds for arm in o.arms for p in range(len(ARMS[arm]))]
    else:
        chosen = find_best_points(read(tuning)) | o.point
        levels = WORLDS[o.world].get("cycles", GYM_CONTROL["cycles"])
        seeds = o.seeds or ((0, 1, 2) if o.world == "lunarlander" else (0, 1, 2, 3, 4, 5))
        jobs = [
            Job(o.world, arm, chosen.get(arm, 0), s, levels, o.width) for s in seeds for arm in o.arms if arm in chosen
        ]
    out = tuning if o.what == "tune" else results
    add_missing(out, jobs, lambda row, job: row["key"] == job.key, train_one, describe_job, o.jobs, o.minutes)


def describe_job(row: Row) -> str:
    return f"{row['key']} {[round(level, 1) for level in row['levels']]} {row['seconds']:.0f} s"


def train_one(job: Job) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        path, settings, began = Path(folder) / "run", job.settings, time.time()
        prepare(RunSpec("ppo", settings, command="benchmarks/worlds.py"), path, lambda line: None).train(
            lambda step: None
        )
        found = levels(path, settings.rollout_steps)
        shifts = [task["shift"]["offset"]["offset"] for task in json.loads((path / "config.json").read_text())["tasks"]]
        metrics = [json.loads(line) for line in (path / "metrics.jsonl").open()]
        metrics = [row for row in metrics if row["step"] % settings.steps_per_task == 0]
        ends = {name: [row[name] for row in metrics if name in row] for name in ("policy/entropy", "agent/weight_norm",
                "agent/dormant_fraction", "agent/srank")}  # fmt: skip
    own = {name: list(v) if isinstance(v, tuple) else v for name, v in ARMS[job.arm][job.point].items()}
    return {"key": job.key, "settings": own, "levels": found, "ends": ends, "offsets": shifts,
            "seconds": round(time.time() - began, 1)}  # fmt: skip


def levels(path: Path, rollout: int) -> list[float]:
    """Return the mean over each level's rollouts of the mean return of their episodes: the published number."""
    returns: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in (path / "episodes.jsonl").open():
        row = json.loads(line)
        returns[row["task"]][(row["step"] - 1) // rollout].append(row["return"])
    return [statistics.fmean(map(statistics.fmean, rollouts.values())) for rollouts in returns.values()]


def group_by_arm(rows: list[Row]) -> Iterator[tuple[str, int, list[Row]]]:
    for arm, points in ARMS.items():
        for point in range(len(points)):
            found = [row for row in rows if row["key"][:2] == [arm, point]]
            if found:
                yield arm, point, found


def find_best_points(rows: list[Row]) -> dict[str, int]:
    """Return the point of each arm with the highest mean over levels and seeds."""
    found: dict[str, tuple[float, int]] = {}
    for arm, point, own in group_by_arm(rows):
        score = statistics.fmean(statistics.fmean(row["levels"]) for row in own)
        if arm not in found or score > found[arm][0]:
            found[arm] = score, point
    return {arm: point for arm, (_, point) in found.items()}


def show(world: str, tuning: list[Row], results: list[Row]) -> None:
    """Print the tables, as Markdown: every point of tuning, then the arms from the best to the worst."""
    print("| arm | settings | seeds | level 0, level 1 (tuning) |\n|---|---|---|---|")
    for arm, _, own in group_by_arm(tuning):
        means = [statistics.fmean(level) for level in zip(*(row["levels"] for row in own), strict=True)]
        print(f"| {arm} | {describe_arm(own[0])} | {len(own)} | {', '.join(f'{mean:.1f}' for mean in means)} |")
    lowest = STUCK.get(world, float("-inf"))
    lines = []
    chosen = find_best_points(tuning)
    for arm, point, own in group_by_arm(results):
        compared = ARMS[arm][point] == PUBLISHED_STEP_SIZE if arm == "none" else point == chosen.get(arm, 0)
        published = PUBLISHED.get(world, {}) if compared else {}
        own = sorted(own, key=lambda row: row["key"][2])
        whole = [statistics.fmean(row["levels"]) for row in own]
        around = t_interval(whole)
        span = "" if around is None else f" [{around[0]:.0f}, {around[1]:.0f}]"
        shifted = [level for row in own for level in row["levels"][1:]]
        cells = [
            LONG.get(arm, arm) + (" (knows the switches)" if arm in TOLD else ""), describe_arm(own[0]),
            *(text.replace("-", "−") for text in (
                str(published.get(arm, "")), f"{statistics.fmean(whole):.0f}{span}",
                ", ".join(f"{mean:.0f}" for mean in whole),
            )),
            f"{sum(level <= lowest for level in shifted)} of {len(shifted)}",
        ]  # fmt: skip
        lines.append((-statistics.fmean(whole), "| " + " | ".join(cells) + " |"))
    print("\n| arm | chosen in tuning, or for comparison | published | mean, 95 % (t) | by seed | levels at lowest |")
    print("|---|---|---|---|---|---|", *(line for _, line in sorted(lines)), sep="\n")


def describe_arm(row: Row) -> str:
    """Return the hook and the learning rate of a row, where they are its own, as Markdown."""
    own = row["settings"]
    rate = [f"learning rate {own['learning_rate']:.0e}".replace("e-0", "e-")] if "learning_rate" in own else []
    return ", ".join([*(f"`{hook}`" for hook in own.get("hook", ())), *rate])


if __name__ == "__main__":
    main(tyro.cli(Options))
