"""What a sweep costs beside its runs, and how soon it says that nothing is left to train.

    python benchmarks/sweep_overhead.py --out docs/results/reliability/sweep_overhead.json

First: the time of `supple sweep` on so many points, over the sum of what its runs took, by their own clocks, divided by
the processes; with the report, and without. A run's clock counts its training: what comes before (the network, the
folder) and between runs is the sweep's. Second: how long `supple sweep` takes, as a new process, where all of many
points are at their end.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tyro

from supple.experiments.queue.queue import FINISHED
from supple.experiments.sweeps.file import read_sweep

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
COMMAND = [sys.executable, "-c", "from supple.scripts.main import main; main()", "sweep"]


@dataclass(frozen=True)
class Args:
    out: Path | None = None
    points: int = 40
    seconds: float = 20.0  # of a point
    jobs: int = 2
    finished: int = 1000  # points of the second measurement
    rounds: int = 5  # of it


def write_sweep(folder: Path, points: int, updates: int) -> tuple[Path, Path]:
    """Write a sweep file. Returns it, and a folder for the sweep."""
    rates = ", ".join(f"{{ learning_rate = {0.01 + 0.00001 * i:.5f} }}" for i in range(points))
    folder.mkdir()
    text = FILE.format(updates=updates, period=max(updates // 10, 1), points=rates)
    (folder / "rates.toml").write_text(text)
    return folder / "rates.toml", folder / "out"


def time_sweep(file: Path, out: Path, jobs: int) -> float:
    """Return the seconds of `supple sweep`."""
    begun = time.perf_counter()
    subprocess.run([*COMMAND, str(file), "--out", str(out), "--jobs", str(jobs)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def read_times(out: Path) -> list[float]:
    """Return the seconds that each run took by its own clock, at its last line of metrics."""
    logs = [file.read_text().splitlines()[-1] for file in out.rglob("metrics.jsonl")]
    return [float(json.loads(line)["time"]) for line in logs]


def overhead(folder: Path, args: Args) -> dict[str, Any]:
    trial = 2000
    time_sweep(*(tried := write_sweep(folder / "tried", args.jobs, trial)), args.jobs)  # side by side, as they will be
    updates = int(trial * args.seconds / median(read_times(tried[1])))
    file, out = write_sweep(folder / "points", args.points, updates)
    begun = time.time()
    whole = time_sweep(file, out, args.jobs)
    trained = max(path.stat().st_mtime for path in out.rglob("outcome.json")) - begun
    times = read_times(out)
    ideal = sum(times) / args.jobs
    return {
        "points": len(times), "seconds of a run": median(times), "ideal": ideal, "until the last run's end": trained,
        "with the report": whole, "above": trained / ideal - 1, "above, with the report": whole / ideal - 1,
    }  # fmt: skip


def time_finished_sweep(folder: Path, args: Args) -> dict[str, Any]:
    file, out = write_sweep(folder / "finished", args.finished, 10)
    for job in read_sweep(file).begin(out):
        job.record(FINISHED)
    times = [time_sweep(file, out, args.jobs) for _ in range(args.rounds)]
    return {"points": args.finished, "seconds": times, "median": median(times)}


def main(args: Args) -> None:
    with tempfile.TemporaryDirectory() as name:
        found = {
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "asked": {option: value for option, value in asdict(args).items() if option != "out"},
            "overhead": overhead(Path(name), args),
            "finished": time_finished_sweep(Path(name), args),
        }
    text = json.dumps(found, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
