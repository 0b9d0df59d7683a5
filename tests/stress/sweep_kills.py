"""Sweeps whose processes are killed: all end with the same bytes, and no run comes to its end twice.

    python tests/stress/sweep_kills.py --out docs/results/reliability/sweep_kills.json

One small sweep is trained undisturbed. Then every trial trains it again and kills (SIGKILL) at random moments: the
sweep's own process or one of those in which it trains; workers that share the folder (`supple worker`); or a node of a
real Ray cluster on this machine, with everything on it. A trial holds if the end has the bytes of the undisturbed sweep
(logs without their clocks, tensors, the names of all files), nothing failed or said a traceback, and every run came to
its end once, which a plug-in writes down. Trials that the file `out` has already are left out.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import tyro
from forked import LIMIT, Disturbed, Forked, describe_folder, find_workers, has_failed, import_everything, start

SWEEP = """
[lin]
kind = "linear"
settings = { tasks = "semantic,reversal", updates_per_task = 1500, checkpoint_every = 150, measure_every = 300 }
arms = ["none", "snp(lam={lam})"]
fork_at_task = 1
seeds = "0-2"
grid = { lam = [0.3, 0.6] }
"""
NOTED = """
import gymnasium
from supple.experiments.queue.queue import QueuedRun

ended = QueuedRun.record

def noted(job, outcome, **more):
    ended(job, outcome, **more)
    with open({notes!r}, "a") as log:
        log.write(f"{{outcome}} {{job.folder}}\\n")

if not hasattr(QueuedRun, "noted"):
    QueuedRun.record, QueuedRun.noted = noted, True
gymnasium.register("Noted-v0", "noted:nothing")  # a plug-in has to bring something
"""


@dataclass(frozen=True)
class Args:
    out: Path  # a file of JSON
    sweeps: int = 8  # trials in which the sweep, or one of its processes, is killed
    workers: int = 6  # trials with three workers
    nodes: int = 5  # trials with a Ray of two nodes
    seed: int = 0


class Trial(Disturbed):
    """A sweep that is disturbed."""

    def __init__(self, title: str, place: Path) -> None:
        super().__init__(title, place)
        self.notes, self.file = place / "notes", place / "sweep.toml"
        self.plugin = ["--plugin", str(place / "noted.py")]
        place.mkdir()
        self.notes.touch()
        self.file.write_text(SWEEP)
        (place / "noted.py").write_text(NOTED.format(notes=str(self.notes)))

    def sweep(self, *more: str) -> list[str]:
        return ["sweep", str(self.file), "--out", str(self.out), *self.plugin, *more]

    def start(self, words: list[str]) -> Forked:
        return start(words, self.place / f"errors-{len(self.kills)}-{random.random()}")

    def finish(self) -> None:
        """Let it finish undisturbed."""
        psutil.wait_procs(find_workers(), timeout=10)
        self.expect_end(self.start(self.sweep("--jobs", "2", *["--retry-failed"] * has_failed(self.out))), 0)

    def describe(self) -> dict[str, Any]:
        found = describe_folder(self.out)
        return {**found, "names": [name for name in found["names"] if "report" not in name]}

    def compare(self, whole: dict[str, Any]) -> None:
        self.expect_same(self.describe(), whole)
        counts = Counter(line for line in self.notes.read_text().splitlines() if line.startswith("finished"))
        self.wrong += [f"{count} times {line}" for line, count in counts.items() if count > 1]
        if len(counts) < len(list(self.out.rglob("outcome.json"))) - len(self.kills):  # one may fall between
            self.wrong.append(f"only {len(counts)} runs were seen to end")


def kill_sweep(trial: Trial, seconds: float) -> None:
    """Kill the sweep, or one of its processes, at random moments."""
    for _ in range(trial.draw.randint(2, 4)):
        process = trial.start(trial.sweep("--jobs", "2", *["--retry-failed"] * has_failed(trial.out)))
        time.sleep(trial.draw.uniform(0, 0.6 * seconds))
        if (busy := find_workers()) and trial.draw.random() < 0.4:
            trial.draw.choice(busy).kill()
            trial.kills.append("a process of the sweep")
            trial.expect_end(process, 0, 1)
            continue
        os.kill(process.pid, signal.SIGKILL)
        trial.kills.append("the sweep")
        trial.expect_end(process, 0, -signal.SIGKILL)
    trial.finish()


def kill_workers(trial: Trial, seconds: float) -> None:
    """Begin the folder; then of three workers kill one after another, and start others in their place."""
    begin = trial.start(trial.sweep("--jobs", "1"))
    while not (trial.out / "lin/comparison.json").is_file():
        time.sleep(0.01)
    os.kill(begin.pid, signal.SIGKILL)
    trial.kills.append("the sweep")
    trial.expect_end(begin, -signal.SIGKILL)
    crowd = [trial.start(["worker", str(trial.out), *trial.plugin]) for _ in range(3)]
    for _ in range(trial.draw.randint(3, 5)):
        time.sleep(trial.draw.uniform(0, 0.3 * seconds))
        victim = crowd.pop(trial.draw.randrange(3))
        os.kill(victim.pid, signal.SIGKILL)
        trial.kills.append("a worker")
        trial.expect_end(victim, 0, -signal.SIGKILL)
        crowd.append(trial.start(["worker", str(trial.out), *trial.plugin]))
    for process in crowd:
        trial.expect_end(process, 0)


def kill_nodes(trial: Trial, seconds: float) -> None:
    """Kill one of two nodes of a cluster, with the workers on it, at random moments; another comes in its place."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        words = trial.sweep("--on", "ray", "--workers", "2", "--with", f"address={cluster.address}")
        said = (trial.place / "said").open("w+")
        command = [sys.executable, "-c", "from supple.scripts.main import main; main()", *words]
        process = subprocess.Popen(command, stdout=said, stderr=said)
        until = time.monotonic() + LIMIT
        for _ in range(trial.draw.randint(1, 3)):
            before = len(list(trial.out.rglob("state.json")))
            while process.poll() is None and len(list(trial.out.rglob("state.json"))) == before:
                time.sleep(0.05)  # until somebody is at work
            time.sleep(trial.draw.uniform(0, 0.3 * seconds))
            if process.poll() is not None or time.monotonic() > until:
                break
            cluster.remove_node(nodes.pop(trial.draw.randrange(2)), allow_graceful=False)
            trial.kills.append("a node")
            nodes.append(cluster.add_node(num_cpus=1))
        try:
            code = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code:
            said.seek(0)
            trial.wrong.append(f"exit code {code}: {said.read()[-1000:]}")
    finally:
        cluster.shutdown()


def main(args: Args) -> None:
    rows = json.loads(args.out.read_text())["trials"] if args.out.exists() else []
    done = {row["trial"] for row in rows}
    acts: dict[str, tuple[int, Callable[[Trial, float], None]]] = {
        "sweep": (args.sweeps, kill_sweep), "workers": (args.workers, kill_workers),
        "Ray's nodes": (args.nodes, kill_nodes),  # last: a process that has been in a cluster is not forked again
    }  # fmt: skip
    import_everything()
    with tempfile.TemporaryDirectory() as name:
        whole = Trial("undisturbed", Path(name) / "trial")
        begun = time.monotonic()
        whole.finish()
        assert not whole.wrong, whole.wrong
        assert len(whole.notes.read_text().splitlines()) == len(list(whole.out.rglob("outcome.json")))
        seconds, wanted = time.monotonic() - begun, whole.describe()
        shutil.rmtree(whole.place)
        for sort, (count, act) in acts.items():
            for number in range(count):
                if (title := f"{sort}, {number + 1}") in done:
                    continue
                trial = Trial(
                    f"{args.seed} {title}", Path(name) / "trial"
                )  # in the same place: configs name the plug-in
                act(trial, seconds)
                trial.compare(wanted)
                rows.append({"trial": title, "kills": trial.kills, "wrong": trial.wrong})
                print(json.dumps(rows[-1]), flush=True)
                shutil.rmtree(trial.place)
                args.out.parent.mkdir(parents=True, exist_ok=True)
                kills = Counter(kill for row in rows for kill in row["kills"])
                held = sum(not row["wrong"] for row in rows)
                found = {"kills": kills, "killed": kills.total(), "held": held, "of": len(rows), "trials": rows}
                args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
