"""The report on made-up runs: scores, the page, the swap, and what happens where something is missing."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from supple.experiments.report import build_report, load, score, summary_table

ENVS = {"HalfCheetah-v5": 1800.0, "Hopper-v5": 1100.0, "Walker2d-v5": 700.0, "Ant-v5": 400.0}
ARMS = {"none": 0.55, "fire@task": 1.0, "snp(lam=0.8)@task": 0.85, "reset(what=head)@task": 0.7}
CONTRACT = {
    "weights": "all",
    "optimizer state": "zeroed in place for the tensors that were written",
    "target network": ":= online network",
    "temperature": "kept",
}


def write_lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_run(folder, *, arm=None, hooks=(), seed=0, envs=tuple(ENVS), cycles=2, per_task=60_000, start=0, stop=None):
    """A plausible run directory from step `start` to `stop`: returns rise in each task, less so in later cycles."""
    rng = np.random.default_rng([seed, len(arm or ""), start])
    folder.mkdir(parents=True)
    tasks = [
        {
            "index": i,
            "cycle": i // len(envs),
            "env": envs[i % len(envs)],
            "start": i * per_task,
            "end": (i + 1) * per_task,
        }
        for i in range(cycles * len(envs))
    ]
    total = tasks[-1]["end"]
    stop = total if stop is None else stop
    config = {
        "supple": "0.1.0", "algorithm": "ppo", "seed": seed, "total_steps": total, "start_step": start,
        "hooks": list(hooks), "arm": arm, "versions": {"python": "3.12.1", "torch": "2.13.0"},
        "settings": {"sequence": ",".join(envs), "cycles": cycles, "steps_per_task": per_task, "hook": list(hooks)},
        "tasks": tasks, "command": f"supple compare ppo --cycles {cycles} --seed {seed}",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    talent = ARMS.get(arm or "none", 0.8)
    episodes, metrics, events = [], [], []
    for task in tasks:
        keep = talent ** task["cycle"]
        peak = ENVS[task["env"]] * keep * rng.uniform(0.85, 1.15)
        if start <= task["start"] < stop and task["index"] > 0:
            events.append({"event": "task", "step": task["start"], "task": task["index"]})
            events += [intervention(task["start"], arm, rng)] if arm and arm != "none" else []
        at = task["start"]
        while (at := at + int(rng.integers(250, 1000))) <= task["end"]:
            progress = (at - task["start"]) / per_task
            value = peak * (1 - math.exp(-3 * progress)) + 0.1 * peak * rng.normal()
            if start < at <= stop:
                episodes.append(
                    {"step": at, "env": task["env"], "task": task["index"], "cycle": task["cycle"], "return": value}
                )
        if start < task["end"] <= stop:
            metrics.append(
                {"step": task["end"], "time": 1.0, "task": task["index"], "cycle": task["cycle"],
                 "eval/return": peak, "eval/return_friction": peak * rng.uniform(0.6, 1.1)}
            )  # fmt: skip
        for step in range(task["start"] + per_task // 6, task["end"] + 1, per_task // 6):
            if start < step <= stop:
                metrics.append({"step": step, "time": 1.0, "loss/policy": 0.1, **measured(step / total, talent, rng)})
    if arm and talent == ARMS["none"]:
        where = tasks[-1]
        events.append(
            {"event": "explosion", "step": stop - 5, "env": where["env"], "task": where["index"], "reward": -3e7}
        )
    write_lines(folder / "episodes.jsonl", episodes)
    write_lines(folder / "metrics.jsonl", sorted(metrics, key=lambda row: row["step"]))
    write_lines(folder / "events.jsonl", events)
    return folder


def measured(progress, talent, rng):
    fall = (1 - talent) * progress
    return {
        "agent/dfi": 900 + 200 * progress, "agent/dfi_unscaled": 0.05 + fall + 0.01 * rng.random(),
        "agent/dormant_fraction": 0.6 * fall, "agent/srank": 180 * (1 - fall) + rng.normal(),
        "agent/effective_rank": 60 * (1 - fall) + rng.normal(), "agent/weight_norm": 30 + 40 * fall,
        "agent/gradient_norm": 0.5 * (1 + fall) * rng.uniform(0.6, 1.6),
    }  # fmt: skip


def intervention(step, hook, rng):
    before, after = measured(0.6, 0.5, rng), measured(0.1, 0.9, rng)
    return {
        "event": "intervention", "step": step, "task": 1, "hook": hook, "intervention": hook.split("@")[0],
        "learner": "agent", "contract": CONTRACT,
        "before": {k.split("/")[1]: v for k, v in before.items()}, "after": {k.split("/")[1]: v for k, v in after.items()},
        "change": {"sfe": 40 + rng.random(), "sfe_normalized": 0.3, "feature_covariance_distance": 0.2}, "seconds": 0.02,
    }  # fmt: skip


def write_comparison(folder, seeds=(0,), fork=60_000, **stream):
    folder.mkdir(parents=True)
    plan = {"arms": list(ARMS), "seeds": list(seeds), "fork_step": fork}
    (folder / "comparison.json").write_text(json.dumps(plan))
    for seed in seeds:
        write_run(folder / f"seed-{seed}" / "trunk", seed=seed, stop=fork, **stream)
        for i, arm in enumerate(ARMS):
            hooks = [] if arm == "none" else [arm]
            write_run(folder / f"seed-{seed}" / f"arm-{i}", arm=arm, hooks=hooks, seed=seed, start=fork, **stream)
    return folder
