"""Files and processes: checkpoints of a growing memory, the report of many long runs, a sweep beside its runs."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import torch
from entries import Asked, Turns
from timing import seconds, temporary_folder
from torch import Tensor

from supple.agents.dqn.settings import DQNSettings
from supple.engine.runs import build, fork, prepare, resolved
from supple.engine.spec import Resolved, RunSpec, Start, start_run
from supple.engine.storage import checkpoint
from supple.engine.storage.checkpoint import Rows
from supple.engine.storage.run_directory import CHECKPOINTS
from supple.experiments.queue.queue import FINISHED, QueuedRun
from supple.experiments.sweeps.file import read_sweep
from supple.experiments.sweeps.space import Space
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.sweep import Sweep

SUPPLE = [sys.executable, "-c", "from supple.scripts.main import main; main()"]

# -- checkpoints ------------------------------------------------------------------------------------------------------

POOL, CHUNK = 4096, 16_384  # random rows, which repeat; rows that are loaded at a time


def checkpoints(asked: Asked) -> Turns:
    """Its rows are of an 84×84 frame, an action and a reward, in the folder for temporary files: a million need 7 GB
    of disk, and loading them 7 GB of memory. The floor is a plain write of the same bytes."""
    rows, new = (20_000, (1_000,)) if asked.small else (1_000_000, (10_000, 50_000, 250_000))
    frames = torch.randint(0, 256, (POOL, 84, 84), dtype=torch.uint8).repeat(2, 1, 1)  # so that any run is one block
    sizes: dict[str, int] = {}

    def supple() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            return save_and_load(Path(folder), frames, rows, new, sizes)

    def plain() -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            return {name: write_plainly(Path(folder) / "floor", size) for name, size in sizes.items()}

    return {"supple": supple, "floor: a plain write": plain}


def save_and_load(
    folder: Path, frames: Tensor, rows: int, new: tuple[int, ...], sizes: dict[str, int]
) -> dict[str, float]:
    trunk = RunSpec("dqn", DQNSettings(), resolved=Resolved(identity="trunk"))
    checkpoints = folder / "trunk" / CHECKPOINTS
    found: dict[str, float] = {}
    last: Path | None = None
    end = rows
    for step, more in enumerate((0, *new), 1):
        end += more
        tree = {"memory": make_rows(frames, end - rows, end), "logs": {}}
        started = time.perf_counter()
        last = checkpoint.save(checkpoints, step, tree, "trunk", last)
        name = f"{more:,} new rows" if more else "first save"
        found[name] = time.perf_counter() - started
        sizes[name] = sum(file.stat().st_size for file in last.iterdir() if file.stat().st_nlink == 1)
        checkpoint.prune(checkpoints, keep=1, step=step)
    assert last is not None
    arm, opened = replace(trunk, start=Start(step)), []
    found["fork"] = seconds(lambda: fork(trunk, last, folder / "arm", arm))
    at = checkpoint.folder_of(folder / "arm" / CHECKPOINTS, step)
    found["load: sums"] = seconds(lambda: opened.append(checkpoint.load(at, arm.resolved.identity)))
    leaf = opened[0]["memory"]
    kinds = leaf.read(leaf.first, leaf.first + 1)
    memory = {name: torch.zeros(rows, *row.shape[1:], dtype=row.dtype) for name, row in kinds.items()}
    found["load: memory"] = seconds(lambda: fill(leaf, memory, rows))
    return found


def make_rows(frames: Tensor, first: int, end: int) -> Rows:
    def read(start: int, stop: int) -> dict[str, Tensor]:
        number = torch.arange(start, stop)
        pieces = [frames[a % POOL :][: min(POOL, stop - a)] for a in range(start, stop, POOL)]
        return {"frames": torch.cat(pieces), "action": (number % 18).to(torch.uint8), "reward": number.float()}

    return Rows(first, end, read)


def fill(leaf: Rows, memory: dict[str, Tensor], size: int) -> None:
    """Read the rows into a ring of `size`, as a replay memory does."""
    start = leaf.first
    while start < leaf.end:
        at = start % size
        count = min(CHUNK, leaf.end - start, size - at)
        for name, tensor in leaf.read(start, start + count).items():
            memory[name][at : at + count] = tensor
        start += count


def write_plainly(path: Path, size: int) -> float:
    """Return the seconds to write so many random bytes and flush them; those of a GB, scaled, where they are more."""
    sample, block = min(size, 2**30), os.urandom(2**24)

    def write() -> None:
        with path.open("wb") as file:
            for start in range(0, sample, len(block)):
                file.write(block[: sample - start])
            file.flush()
            os.fsync(file.fileno())

    taken = seconds(write)
    path.unlink()
    return taken * size / sample


# -- reports ----------------------------------------------------------------------------------------------------------

TALENT = {"none": 0.5, "fire@task": 1.0}


def report(asked: Asked) -> Turns:
    """Return the turn that writes the report of a sweep.

    The runs of four studies of ten arms and five seeds are made up from one real small one: its config.json, and its
    logs lengthened to what PPO writes in a million steps, five episodes in 1,000 of them and a measurement every 4,000.
    The floor reads the same bytes and parses every line.
    """
    studies, seeds, steps = (1, 1, 100_000) if asked.small else (4, 5, 1_000_000)
    folder = temporary_folder()
    jobs = Sweep(make_studies(studies, seeds, steps)).begin(folder / "sweep", command="supple sweep made.toml")
    resolved, logs = make_real_run(jobs[0], folder / "real")
    for job in jobs:
        lengthen(job, resolved, logs, steps)

    def floor() -> dict[str, float]:
        import orjson

        files = list(folder.rglob("*.jsonl"))
        return {"seconds": seconds(lambda: [orjson.loads(line) for f in files for line in f.read_bytes().splitlines()])}

    return {"supple report": lambda: run_report(folder / "sweep"), "floor: lines parsed": floor}


def run_report(sweep: Path) -> dict[str, float]:
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process, peak = subprocess.Popen([*SUPPLE, "report", str(sweep)], stdout=subprocess.DEVNULL), 0.0
    while process.poll() is None:
        peak = max(peak, measure_memory(process.pid))
        time.sleep(0.1)
    assert process.returncode == 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - started, "seconds of a core": busy, "MiB at most": peak}


def measure_memory(pid: int) -> float:
    """Return MiB that a process and those that it started take, what they share counted once."""
    try:
        root = psutil.Process(pid)
        return float(sum(each.memory_full_info().pss for each in (root, *root.children(recursive=True))) / 2**20)
    except psutil.Error:  # it came to its end
        return 0.0


def make_studies(studies: int, seeds: int, steps: int) -> list[Study]:
    settings = {
        "env": "CartPole-v1", "shift": "offset(scale=1)", "cycles": 10, "steps_per_task": steps // 10,
        "measure_every": 4_000, "threads": 1, "device": "cpu", "compile": "off",
    }  # fmt: skip
    arms = ("none", "fire@task", "l2_init(strength={strength})")
    space = Space({"activation": ["relu", "tanh"], "strength": [1e-4, 1e-3, 1e-2]})
    given: dict[str, Any] = {"settings": settings, "arms": arms, "seeds": tuple(range(seeds)), "fork_at": 0.0}
    return [Study(f"study{i + 1}", "ppo", space=space, **given) for i in range(studies)]


def make_real_run(job: QueuedRun, folder: Path) -> tuple[Resolved, dict[str, list[dict[str, Any]]]]:
    """Return what a run results in, and the logs of one that is trained on two short tasks."""
    work = build(job.spec.kind_row, job.spec.settings, print)
    found = resolved(job.spec, work).resolved
    work.close()
    short = replace(job.spec.settings, cycles=2, steps_per_task=4_096, measure_every=2_048, hook=("fire@task",))
    prepare(RunSpec(job.spec.kind, short), folder, print).train()
    return found, {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        for name in ("metrics", "episodes", "events")
    }


def lengthen(job: QueuedRun, resolved: Resolved, logs: dict[str, list[dict[str, Any]]], steps: int) -> None:
    """Write a run as one that is at its end: the real rows at other steps, with returns that rise in every task."""
    labels, length = job.spec.labels, steps // 10
    assert labels.arm is not None
    hooks = tuple(hook for hook in job.spec.settings.hook if hook != "none")
    start_run(job.folder, replace(job.spec, resolved=replace(resolved, hooks=hooks)))
    draw = np.random.default_rng([job.spec.seeds[0], len(labels.arm)])
    measured = next(row for row in logs["metrics"] if "agent/srank" in row)
    evaluated = next(row for row in logs["metrics"] if "eval/return" in row)
    switch = next(row for row in logs["events"] if row["event"] == "task")
    applied = next(row for row in logs["events"] if row["event"] == "intervention")
    shares = np.linspace(1, 0.4, 10) ** (1 - TALENT.get(labels.arm, 0.8))
    rows: dict[str, list[dict[str, Any]]] = {"metrics": [], "episodes": [], "events": []}
    for step in range(4_000, steps + 1, 4_000):
        noise, task = 1 + 0.1 * draw.normal(), (step - 1) // length
        moved = {name: value * noise if isinstance(value, float) else value for name, value in measured.items()}
        rows["metrics"].append({**moved, "step": step, "time": step / 1_000, "task": task, "cycle": task})
    for task in range(10):
        place = {"step": (task + 1) * length, "task": task, "cycle": task}
        rows["metrics"].append({**evaluated, **place, "eval/return": float(400 * shares[task] + 20 * draw.normal())})
        if task:
            rows["events"].append({**switch, "step": task * length, "task": task, "cycle": task})
            rows["events"] += [{**applied, "step": task * length}] if hooks else []
    for step in np.sort(draw.integers(1, steps, steps // 200)).tolist():
        task = (step - 1) // length
        level = 400 * shares[task] * (1 - np.exp(-4 * (step - task * length) / length))
        value = float(np.round(max(9.0, level + 40 * draw.normal())))
        place = {"step": step, "task": task, "cycle": task}
        rows["episodes"].append({**logs["episodes"][0], **place, "return": value, "length": int(value)})
    for name, found in rows.items():
        (job.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    job.record(FINISHED)


# -- sweeps -----------------------------------------------------------------------------------------------------------

FILE = """
[rates]
kind = "linear"
settings.tasks = "semantic,reversal"
settings.updates_per_task = {updates}
settings.measure_every = {period}
settings.checkpoint_every = {period}
arms = ["none"]
points = [{points}]
"""
JOBS = 2


def sweep(asked: Asked) -> Turns:
    """Return the turn that trains a sweep.

    The floor is what the runs took by their own clocks, over the processes: what comes before (the network, the
    folder) and between runs is the sweep's. Then a new process joins a sweep of a thousand points that are finished.
    """
    points, wanted, many = (2, 1.0, 4) if asked.small else (40, 20.0, 1_000)
    found: dict[str, float] = {}

    def whole(folder: Path) -> dict[str, float]:
        time_sweep(*(tried := write_sweep(folder / "tried", JOBS, 2_000)))  # side by side, as they will be
        file, out = write_sweep(folder / "points", points, int(2_000 * wanted / median(read_times(tried[1]))))
        begun = time.time()
        taken = time_sweep(file, out)
        found["runs"] = sum(read_times(out)) / JOBS
        ended = max(path.stat().st_mtime for path in out.rglob("outcome.json")) - begun
        file, out = write_sweep(folder / "finished", many, 10)
        for job in read_sweep(file).begin(out):
            job.record(FINISHED)
        return {"until the last run's end": ended, "with the report": taken, f"{many} finished": time_sweep(file, out)}

    def floor() -> dict[str, float]:
        return dict.fromkeys(("until the last run's end", "with the report"), found["runs"])

    return {"supple sweep": in_a_folder(whole), "floor: its runs": floor}


def in_a_folder(call: Callable[[Path], dict[str, float]]) -> Callable[[], dict[str, float]]:
    def run() -> dict[str, float]:
        folder = Path(tempfile.mkdtemp())
        try:
            return call(folder)
        finally:
            shutil.rmtree(folder)

    return run


def write_sweep(folder: Path, points: int, updates: int) -> tuple[Path, Path]:
    """Write a sweep file. Returns it, and a folder for the sweep."""
    rates = ", ".join(f"{{ learning_rate = {0.01 + 0.00001 * i:.5f} }}" for i in range(points))
    folder.mkdir()
    text = FILE.format(updates=updates, period=max(updates // 10, 1), points=rates)
    (folder / "rates.toml").write_text(text)
    return folder / "rates.toml", folder / "out"


def time_sweep(file: Path, out: Path) -> float:
    words = [*SUPPLE, "sweep", str(file), "--out", str(out), "--jobs", str(JOBS)]
    return seconds(lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL))


def read_times(out: Path) -> list[float]:
    """Return the seconds that each run took by its own clock, at its last line of metrics."""
    logs = [file.read_text().splitlines()[-1] for file in out.rglob("metrics.jsonl")]
    return [float(json.loads(line)["time"]) for line in logs]
