"""How long `supple report` takes over a sweep of many long runs, and in how much memory.

  python benchmarks/report_speed.py                      # 200 runs of 1M steps in four studies
  python benchmarks/report_speed.py --folder runs/made   # keeps the sweep, and takes it again

The runs are made up from one real small one: its config.json, and its logs lengthened to what PPO writes in a million
steps, five episodes in 1,000 of them and a measurement every 4,000. Beside the time stands a floor: reading the same
bytes and parsing every line, and nothing else.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tyro

from supple.engine.runs import build, prepare
from supple.engine.spec import RunSpec, settings_to_json, write_config
from supple.engine.storage.run_directory import RunDirectory
from supple.experiments.queue.queue import FINISHED, QueuedRun
from supple.experiments.sweeps.space import Space
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.sweep import Sweep

TALENT = {"none": 0.5, "fire@task": 1.0}
SMALL = 8_192  # steps of the run that is trained


@dataclass(frozen=True)
class Options:
    runs: int = 200
    studies: int = 4
    steps: int = 1_000_000
    tasks: int = 10
    measure_every: int = 4_000
    episodes: int = 5
    """In 1,000 steps."""
    folder: Path | None = None


def make_studies(o: Options) -> list[Study]:
    """Return studies of two activations and five arms each, whose seeds come to about so many runs."""
    seeds = tuple(range(max(1, o.runs // (o.studies * 10))))
    settings = {
        "env": "CartPole-v1", "shift": "offset(scale=1)", "cycles": o.tasks, "steps_per_task": o.steps // o.tasks,
        "measure_every": o.measure_every, "threads": 1, "device": "cpu", "compile": "off",
    }  # fmt: skip
    arms = ("none", "fire@task", "l2_init(strength={strength})")
    space = Space({"activation": ["relu", "tanh"], "strength": [1e-4, 1e-3, 1e-2]})
    return [
        Study(f"study{i + 1}", "ppo", settings=settings, arms=arms, seeds=seeds, fork_at=0.0, space=space)
        for i in range(o.studies)
    ]


def make_real_run(job: QueuedRun, folder: Path) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return config.json of a run as it will be, and the logs of one that is trained on two short tasks."""
    work = build(job.spec.kind_row, job.spec.settings, print)
    config = write_config(job.spec, work)
    work.close()
    short = replace(job.spec.settings, cycles=2, steps_per_task=SMALL // 2, measure_every=2_048, hook=("fire@task",))
    prepare(RunSpec(job.spec.kind, short), folder, print).train()
    logs = {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        for name in ("metrics", "episodes", "events")
    }
    return config, logs


def write(job: QueuedRun, config: dict[str, Any], logs: dict[str, list[dict[str, Any]]], o: Options) -> None:
    """Write a run as one that is at its end: the real rows at other steps, with returns that rise in every task."""
    assert job.spec.labels.arm is not None
    settings = {**config["settings"], **settings_to_json(job.spec.settings)}
    hooks = [hook for hook in job.spec.hooks if hook != "none"]
    more = {
        "settings": settings,
        "seed": job.spec.seeds[0],
        "hooks": hooks,
        "arm": job.spec.labels.arm,
        "variant": job.spec.labels.variant,
    }
    RunDirectory.create(job.folder, {**config, **more}).close()
    draw, length = np.random.default_rng([job.spec.seeds[0], len(job.spec.labels.arm)]), o.steps // o.tasks
    measured = next(row for row in logs["metrics"] if "agent/srank" in row)
    evaluated = next(row for row in logs["metrics"] if "eval/return" in row)
    switch = next(row for row in logs["events"] if row["event"] == "task")
    applied = next(row for row in logs["events"] if row["event"] == "intervention")
    shares = np.linspace(1, 0.4, o.tasks) ** (1 - TALENT.get(job.spec.labels.arm, 0.8))
    rows: dict[str, list[dict[str, Any]]] = {"metrics": [], "episodes": [], "events": []}
    for step in range(o.measure_every, o.steps + 1, o.measure_every):
        noise = 1 + 0.1 * draw.normal()
        moved = {name: value * noise if isinstance(value, float) else value for name, value in measured.items()}
        place = {"step": step, "time": step / 1_000, "task": (step - 1) // length, "cycle": (step - 1) // length}
        rows["metrics"].append({**moved, **place})
    for task in range(o.tasks):
        place = {"step": (task + 1) * length, "task": task, "cycle": task}
        rows["metrics"].append({**evaluated, **place, "eval/return": float(400 * shares[task] + 20 * draw.normal())})
        if task:
            at = {"step": task * length, "task": task, "cycle": task}
            rows["events"].append({**switch, **at})
            rows["events"] += [{**applied, "step": task * length}] if hooks else []
    steps = np.sort(draw.integers(1, o.steps, o.steps * o.episodes // 1_000))
    for step in steps.tolist():
        task = (step - 1) // length
        level = 400 * shares[task] * (1 - np.exp(-4 * (step - task * length) / length))
        value = float(np.round(max(9.0, level + 40 * draw.normal())))
        rows["episodes"].append(
            {**logs["episodes"][0], "step": step, "task": task, "cycle": task, "return": value, "length": int(value)}
        )
    for name, found in rows.items():
        (job.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    job.record(FINISHED)


def make(folder: Path, o: Options) -> None:
    jobs = Sweep(make_studies(o)).begin(folder / "sweep", command="supple sweep made.toml --out sweep")
    config, logs = make_real_run(jobs[0], folder / "real")
    for job in jobs:
        write(job, config, logs, o)


def time_floor(folder: Path) -> tuple[float, int, int]:
    """Return (seconds, lines, bytes) of reading every log and parsing its lines."""
    import orjson

    started, lines, size = time.perf_counter(), 0, 0
    for file in folder.rglob("*.jsonl"):
        text = file.read_bytes()
        lines, size = lines + len([orjson.loads(line) for line in text.splitlines()]), size + len(text)
    return time.perf_counter() - started, lines, size


def measure_memory(pid: int) -> float:
    """Return MiB that a process and those that it started take, what they share counted once."""
    try:
        root = psutil.Process(pid)
        return sum(each.memory_full_info().pss for each in (root, *root.children(recursive=True))) / 2**20
    except psutil.Error:  # it came to its end
        return 0.0


def main(o: Options) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = o.folder or Path(temporary)
        if not (folder / "sweep").exists():
            make(folder, o)
        seconds, lines, size = time_floor(folder / "sweep")
        print(f"floor: {lines:,} lines, {size / 1e6:.0f} MB: {seconds:.1f} s")
        call = "from supple.scripts.main import main; main()"
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", call, "report", str(folder / "sweep")], stdout=subprocess.DEVNULL
        )
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, measure_memory(process.pid))
            time.sleep(0.1)
        taken, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        busy = used.ru_utime + used.ru_stime
        page = (folder / "sweep/report/index.html").stat().st_size / 1e6
        print(f"supple report: {taken:.1f} s, {busy:.1f} s of a core, {peak:,.0f} MiB at most; the page {page:.2f} MB")


if __name__ == "__main__":
    main(tyro.cli(Options))
