"""All that is unproven on CUDA, as one list for the quarter of an hour in which a GPU is at hand.

    python benchmarks/on_gpu.py --list
    python benchmarks/on_gpu.py --budget 840                       # goes on where it was cut
    python benchmarks/on_gpu.py --wheels wheels --budget 840       # on a borrowed GPU without network
    python benchmarks/on_gpu.py --simulated --out /tmp/simulated   # without a GPU, to try the list itself

The most valuable comes first. Each entry is a process of its own, which is killed at twice its estimated seconds. Its
outcome is written to OUT/results.json as soon as it is known; what stands there is not run again, unless `--again`
names it. With `--budget`, an entry is not begun if its estimate does not fit into what is left of these seconds, and is
cut, without an outcome, when they are over.

Wheels are installed into a folder of their own, without a network and without what they need (`--no-deps`): that of
supple (`pip wheel --no-deps --wheel-dir wheels .`), and what the machine's Python lacks (docs/howto/gpu.md).

A simulated GPU (gpu/pretended_gpu.py) has shapes and devices but no values, so its speeds say nothing, and it records
no graphs; the CUDA tests are skipped.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
MEASURE, RUNS = str(HERE / "parts" / "measure.py"), str(HERE / "gpu" / "runs.py")
LIMIT = 2.0  # times its estimated seconds, after which an entry is killed
TAIL = 4_000  # characters of what an entry said that are kept


@dataclass(frozen=True)
class Entry:
    name: str
    seconds: int  # estimated, on one GPU beside 16 cores
    command: tuple[str, ...]  # after `python`; OUT stands for the folder of results
    proves: str
    simulated: tuple[str, ...] = ("--simulated",)  # more words where the GPU is simulated


def measured(name: str, seconds: int, proves: str) -> Entry:
    """Return an entry of parts/entries.py."""
    return Entry(name, seconds, (MEASURE, f"gpu-{name}", "--threads", "4", "--json"), proves)


def trained(kind: str, seconds: int = 40) -> Entry:
    """Return an entry for a kind of run, with every intervention."""
    command = (RUNS, "--runs", kind, "--jobs", "8", "--out", "OUT/runs.json")
    proves = "trains, measures, is interrupted and resumed, with every intervention"
    return Entry(f"runs of {kind}", seconds, command, proves, ("--hooks", "none", "fire@0.5"))


TESTS = ("tests/agents/offpolicy/test_update.py", "tests/agents/ppo/test_agent_gpu.py")  # those that need a GPU
ENTRIES = (
    Entry("tests", 60, ("-m", "pytest", "-q", "-rs", *TESTS), "a recorded update learns what an eager one does", ()),
    measured("simba-updates", 150, "updates of SimBa per second: recorded, compiled, and both"),
    measured("simba-stacks", 200, "the same of stacks, 1 and 8 seeds: recorded, alone and compiled"),
    measured("simba-v2-updates", 100, "updates per second of the preset simba-v2: recorded, and compiled as well"),
    measured("flash-sac-updates", 100, "the same of the preset flash-sac"),
    measured("crossq-updates", 100, "the same of the preset crossq"),
    measured("simba-humanoid", 150, "the same end to end: Humanoid-v5, 16 environments, replay ratio 2"),
    measured("dqn", 60, "gradient steps of DQN per second, recorded and eager: of the update alone, and in all"),
    measured("dqn-stacks", 150, "the same of stacks: 1 and 8 seeds of the Nature CNN, 1, 8 and 64 of small MLPs"),
    measured("ppo", 80, "PPO with networks of 64 and 1,024 on the GPU and on the CPU"),
    measured("ppo-stacks", 120, "environment steps of PPO per second for 1, 8 and 64 seeds, on the GPU and on the CPU"),
    measured("ppo-images", 150, "PPO on 64 × 64 × 3 with the Nature CNN and on MinAtar, on the GPU and on the CPU"),
    measured("dqn-minatar", 90, "gradient steps of DQN on MinAtar: recorded, eager, and compiled on the CPU"),
    *map(trained, ("dqn", "dqn, two seeds", "sac", "sac, two seeds", "ppo", "ppo, two seeds")),
    *map(trained, ("ppo, images", "ppo, minatar", "dqn, minatar", "dqn, reservoir", "sac, heads")),
    *map(trained, ("vision, two seeds", "pretrain", "sac, mlp", "ppo, two bodies")),
    measured("interventions-vgg", 60, "seconds and MB of interventions, as in FIRE's Table 1"),
    measured("classifiers", 80, "updates of a stack of classifiers, and of a ResNet-18, per second"),
    measured("gpt-124m", 120, "tokens per second beside nanoGPT's loop, eager and compiled"),
    *map(trained, ("vision, resnet", "clip", "sft", "continual, moram", "continual, inclora", "linear")),
)


class Results:
    """OUT/results.json: the entries that have an outcome."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.json"
        self.found: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def add(self, name: str, outcome: dict[str, Any]) -> None:
        self.found[name] = outcome
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(json.dumps(self.found, indent=1, ensure_ascii=False) + "\n")
        os.replace(unfinished, self.path)


def install(wheels: Path) -> Path:
    """Install all wheels of a folder into another, without a network; return that."""
    files = sorted(map(str, wheels.glob("*.whl")))
    if not files:
        raise SystemExit(f"{wheels} holds no wheel")
    site = Path(tempfile.gettempdir()) / "supple-site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--upgrade"]
    subprocess.run([*pip, "--target", str(site), *files], check=True)
    return site


def look(environment: dict[str, str]) -> dict[str, str]:
    """Return PyTorch's version, and the name of the GPU ("" for none)."""
    name = "torch.cuda.get_device_name() if torch.cuda.is_available() else ''"
    code = f"import torch; print(torch.__version__); print({name})"
    said = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    pytorch, gpu = said.stdout.splitlines()[:2]
    return {"pytorch": pytorch, "gpu": gpu}


def run(command: Sequence[str], environment: dict[str, str], limit: float) -> tuple[str, int | None]:
    """Run an entry; return what it said, and its exit status, None if it was killed after so many seconds."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT,
            process_group=0,  # so that those that it started are killed with it
        )  # fmt: skip
        status: int | None = None
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said.seek(0)
        return said.read(), status


def judge(text: str, status: int | None, seconds: float) -> dict[str, Any]:
    """Return the outcome of an entry. The last line of what it said may hold its numbers, as JSON."""
    last = text.rstrip().rpartition("\n")[2]
    outcome = f"killed after {seconds:.0f} s" if status is None else "done" if status == 0 else f"failed: {status}"
    found: dict[str, Any] = {"outcome": outcome, "seconds": round(seconds, 1)}
    if status == 0 and last.startswith("{"):
        found["numbers"] = json.loads(last)
        text = text.rstrip()[: -len(last)]
    return {**found, "said": text[-TAIL:]}


def choose(done: Sequence[str], only: Sequence[str], again: Sequence[str]) -> list[Entry]:
    """Return the entries that are still to be run, in order."""
    if unknown := {*only, *again} - {entry.name for entry in ENTRIES}:
        raise SystemExit(f"no entry is called {', '.join(sorted(unknown))}; see --list")
    wanted = [entry for entry in ENTRIES if not only or entry.name in only]
    return [entry for entry in wanted if entry.name in again or entry.name not in done]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the entries, and run none")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS", help="of all entries together")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these entries alone")
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME", help="these entries, whatever their outcome")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="install the wheels of this folder first")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "gpu", metavar="DIR")
    parser.add_argument("--simulated", action="store_true", help="simulate a GPU")
    args = parser.parse_args(words)
    if args.list:
        for entry in ENTRIES:
            print(f"{entry.name:27} {entry.seconds:4} s  {entry.proves}")
        print(f"{'all':27} {sum(entry.seconds for entry in ENTRIES):4} s")
        return 0
    began, results = time.monotonic(), Results(args.out)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the entry at work is killed too
    environment = dict(os.environ)
    if args.wheels:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(install(args.wheels)), os.getenv("PYTHONPATH"))))
    machine = look(environment)
    if args.simulated:
        machine["gpu"] = "simulated"
    elif not machine["gpu"]:
        raise SystemExit("PyTorch finds no CUDA GPU here; --simulated tries the list without one")
    failed = False
    for entry in choose(list(results.found), args.only, args.again):
        left = args.budget - (time.monotonic() - began)
        if entry.seconds > left:
            print(f"{entry.name}: left out, {entry.seconds} s of {max(left, 0):.0f}", flush=True)
            continue
        said = [word.replace("OUT", str(args.out), 1) for word in entry.command]
        limit, started = min(LIMIT * entry.seconds, left), time.monotonic()
        text, status = run([*said, *(entry.simulated if args.simulated else ())], environment, limit)
        outcome = judge(text, status, time.monotonic() - started)
        if status is None and limit == left:
            print(f"{entry.name}: cut, the budget is over", flush=True)
            continue
        results.add(entry.name, {**outcome, **machine})
        failed |= outcome["outcome"] != "done"
        print(f"{entry.name}: {outcome['outcome']}, {outcome['seconds']:.0f} s", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
