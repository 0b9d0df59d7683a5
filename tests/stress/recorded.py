"""Record what small runs, comparisons, sweeps and reports result in, to compare it before and after a refactoring.

    python tests/stress/recorded.py --out before     then, with the changed code, --out after, and diff -r before after

Every command is a process of its own with fixed seeds. What depends on the clock, the machine or the version is left
out: times, seconds, versions, absolute paths.
"""

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from small_runs import RUNS, command, compared, places

FORKED = {
    "ppo": "--fork-at 0.5 --arm none --arm fire --seeds 0-1 --jobs 2",
    "dqn": "--arm none --arm fire --jobs 1",
    "vision": "--fork-at-task 1 --arm none --arm snp --jobs 1",
    "pretrain": "--vary start=best,8 --arm none --arm fire --jobs 1",
    "linear": "--fork-at 0.5 --arm none --arm rebalance(lam=5) --vary learning_rate=0.01,0.02 --seeds 0-1 --jobs 1",
    "sac": "--arm none --arm actor/fire@0.6 --reference fresh --fork-at 0 --jobs 1",
}
SWEEP = """
[grid]
kind = "linear"
settings = { tasks = "semantic,reversal", measure_every = 25, checkpoint_every = 20 }
arms = ["none", "rebalance(lam={strength})@task"]
seeds = "0-1"
points = [{ strength = 2 }, { strength = 5 }]
grid = { updates_per_task = [40, 60] }

[searched]
kind = "linear"
settings = { tasks = "semantic,reversal", updates_per_task = 40, measure_every = 25 }
arms = ["none", "l2_init(strength={strength})"]
seeds = "0-1"

[searched.search]
points = 5
method = "METHOD"
share = 0.6
seeds = "100-101"
measure = "-loss"
learning_rate = { low = 1e-3, high = 1e-1, log = true }
strength = { low = 1e-4, high = 1e-1, log = true }
"""
HELP = ("", "train", "compare", "sweep", "worker", "resume", "report", "doctor", "bench", "list", "fetch", "new")
CLOCKS = {
    "time",
    "seconds",
    "hours",
    "versions",
    "command",
    "sums",
    "later_versions",
    "machine",
    "sha256",
    "body_sha256",
    "format",
    "logs",
}
SECONDS_OF_PAGES = re.compile(r"\b[0-9.,]+ (?:s|ms|min|h)\b")


@dataclass(frozen=True)
class Args:
    out: Path  # a new folder of text files
    only: tuple[str, ...] = ()  # kinds; nothing: all kinds, sweeps and help


def main(args: Args) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = places(Path(folder))
        runs = Path(folder) / "runs"
        for kind in args.only or RUNS:
            train(command(kind, made, runs / kind))
            record(runs / kind, args.out / kind, folder)
            if kind in FORKED:
                train(compared(kind, made, runs / f"{kind}-arms", FORKED[kind]))
                train(["report", str(runs / f"{kind}-arms")])
                record(runs / f"{kind}-arms", args.out / f"{kind}-arms", folder)
            train(["report", str(runs / kind)])
            record(runs / kind / "report", args.out / f"{kind}-report", folder)
        if args.only:
            return
        interrupt(command("ppo", made, runs / "resumed"), runs / "resumed")
        train(["resume", str(runs / "resumed")])
        record(runs / "resumed", args.out / "resumed", folder)
        for method in ("random", "tpe"):
            (file := Path(folder) / f"{method}.toml").write_text(SWEEP.replace("METHOD", method))
            train(["sweep", str(file), "--out", str(runs / method), "--jobs", "2"])
            train(["report", str(runs / method)])
            record(runs / method, args.out / f"sweep-{method}", folder)
        for name in HELP:
            write(args.out / "help" / (name or "supple"), said([*name.split(), "--help"]))
        for kind in RUNS:
            own = [kind, *(["permuted-mnist"] if kind == "vision" else [])]
            for verb in ("train", "compare"):
                write(args.out / "help" / f"{verb}-{kind}", said([verb, *own, "--help"]))


def process(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [Path(sys.executable).parent / "supple", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def said(words: list[str]) -> str:
    """Return what a command prints."""
    return process(words).communicate()[0]


def train(words: list[str]) -> None:
    """Run a command, which must succeed."""
    started, running = time.monotonic(), process(words)
    text = running.communicate()[0]
    if running.returncode:
        raise SystemExit(f"{' '.join(words)}\n{text}")
    print(f"{time.monotonic() - started:5.1f} s  {' '.join(words)[:100]}", flush=True)


def interrupt(words: list[str], out: Path) -> None:
    """Begin a run, and kill it at its first checkpoint."""
    running = process(words)
    while not list(out.glob("checkpoints/[0-9]*")):
        time.sleep(0.001)
    running.send_signal(signal.SIGKILL)
    running.communicate()


def record(source: Path, target: Path, folder: str) -> None:
    """Write texts that describe all files in a folder: logs and JSON as they are, of tensors their checksums."""
    for file in sorted(source.rglob("*")):
        if file.is_file() and not file.is_symlink() and file.parent.name != "tensorboard":
            name = file.relative_to(source)
            text = "\n".join(lines_of(file)).replace(str(folder), "FOLDER")
            write(target / name.with_name(f"{name.name}.txt"), f"{text}\n")


def lines_of(file: Path) -> Iterator[str]:
    """Yield lines that describe a file."""
    if file.suffix == ".jsonl":
        for line in file.read_text().splitlines():
            yield json.dumps(unclocked(json.loads(line)))
    elif file.suffix == ".json":
        text = file.read_text()
        values = (
            map(json.loads, text.splitlines())
            if text.startswith('{"format": "supple checkpoint')
            else [json.loads(text)]
        )
        yield from (json.dumps(unclocked(value), indent=1) for value in values)
    elif file.suffix in (".csv", ".md", ".tex"):
        yield SECONDS_OF_PAGES.sub("TIME", file.read_text())
    elif file.suffix == ".safetensors":
        yield hashlib.sha256(file.read_bytes()).hexdigest()


def unclocked(value: Any) -> Any:
    """Return a JSON value without what depends on the clock or the version."""
    if isinstance(value, dict):
        return {key: unclocked(item) for key, item in value.items() if key not in CLOCKS}
    return [unclocked(item) for item in value] if isinstance(value, list) else value


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


if __name__ == "__main__":
    args = tyro.cli(Args, description=__doc__)
    shutil.rmtree(args.out, ignore_errors=True)
    main(args)
