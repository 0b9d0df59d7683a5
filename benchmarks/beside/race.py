"""Every peer beside supple, in one command: `make bench`.

    python benchmarks/beside/race.py [--races ppo-halfcheetah sac] [--rounds 7] [--no-install] [--small]

Peers and supple run from one environment, build/peers, which this script makes (`peers.txt`). Each side of a race is a
process with its own libraries and threads (`side.py`). All are started and warmed up, one after the other. Then they
take turns, one at a time, so that a busy machine slows all alike. A side runs with one thread and with two, and counts
with the number that is better for it. Ratios are taken within a round.

Each finished race replaces its entry in docs/results/bench.json. The table of docs/reference/benchmarks.md,
docs/results/bench.csv, is made from that file.
"""

import csv
import io
import json
import os
import platform
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import tyro
from races import OURS, RACES, Race

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PEERS = ROOT / "build" / "peers"
RESULTS = ROOT / "docs" / "results" / "bench.json"
TABLE = RESULTS.with_suffix(".csv")
COLUMNS = ("race", "side", "median (quartiles)", "threads", "supple is × as fast", "asked")
VERSIONS = ("torch", "gymnasium", "mujoco", "stable-baselines3", "sbx-rl", "rejax", "jax", "peft")


@dataclass(frozen=True)
class Args:
    races: tuple[str, ...] = tuple(name for name, race in RACES.items() if all(map(os.getenv, race.needs)))
    """Which races; by default those for which the environment names all that they need (see sides_authors.py)."""
    rounds: int = 7
    """Turns of each side; 5 at least for what is published."""
    install: bool = True
    """Make or renew the peers' environment; off: it is there and holds this version of supple, or this one is taken."""
    small: bool = False
    """One turn of each side, with nothing before it: shows that all run. Nothing is written."""


def install() -> None:
    """Make the environment of all sides: supple as a wheel, and the peers."""
    pip = [str(PEERS / "bin" / "pip"), "install", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
    if not PEERS.exists():
        venv.create(PEERS, with_pip=True)
        subprocess.run([*pip, "torch"], check=True)
    subprocess.run(
        [*pip, "--requirement", str(HERE / "peers.txt"), f"{ROOT}[mujoco,atari,minatar,language,dev]"], check=True
    )


def python() -> Path:
    """Return the interpreter of all sides: that of the peers' environment, or this one where there is none."""
    return path if (path := PEERS / "bin" / "python").exists() else Path(sys.executable)


class Runner:
    """A side's process, warm and waiting for its turn."""

    def __init__(self, race: str, side: str, threads: int, warm: int) -> None:
        self.process = subprocess.Popen(
            [python(), HERE / "side.py", race, side, str(threads), str(warm)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        )  # fmt: skip
        self._answer()

    def turn(self) -> float:
        assert self.process.stdin is not None
        print("go", file=self.process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout
        assert self.process.stderr
        if not (line := self.process.stdout.readline()):
            raise SystemExit(f"{self.process.args}:\n{self.process.stderr.read()[-2000:]}")
        return line

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def run(name: str, race: Race, rounds: int, warm: int = 2) -> dict[str, dict[str, list[float]]]:
    """Return the rates of each side by its number of threads, one for each round."""
    runners: dict[tuple[str, int], Runner] = {}
    try:
        for side in race.sides:
            for threads in race.threads:
                runners[side, threads] = Runner(name, side, threads, warm)
        rates: dict[str, dict[str, list[float]]] = {side: {str(n): [] for n in race.threads} for side in race.sides}
        for _ in range(rounds):
            for (side, threads), runner in runners.items():
                rates[side][str(threads)].append(runner.turn())
    finally:
        for runner in runners.values():
            runner.close()
    return rates


def try_side(race: str, side: str) -> bool:
    """Let a side have one turn, and print its rate or what came in its way; return whether it came to its end."""
    runner: Runner | None = None
    try:
        runner = Runner(race, side, 1, warm=0)
        print(f"{race}: {side}: {runner.turn():,.1f} {RACES[race].unit}", flush=True)
        return True
    except SystemExit as error:
        print(f"{race}: {side}: {str(error).splitlines()[-1]}", flush=True)
        return False
    finally:
        if runner:
            runner.close()


def best(rates: Mapping[str, Sequence[float]]) -> str:
    """Return the number of threads with the greatest median rate."""
    return max(rates, key=lambda threads: median(rates[threads]))


def machine() -> dict[str, Any]:
    facts = dict(line.partition(":")[::2] for line in Path("/proc/cpuinfo").read_text().replace("\t", "").splitlines())
    return {"processor": facts.get("model name", platform.machine()).strip(), "cores": len(os.sched_getaffinity(0))}


def versions() -> dict[str, str]:
    """Return the versions of supple and of the peers that are installed: not every race needs all of them."""
    code = """
import json, sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
found = {}
for name in sys.argv[1:]:
    with suppress(PackageNotFoundError):
        found[name] = version(name)
print(json.dumps(found))
"""
    done = subprocess.run([python(), "-c", code, "supple", *VERSIONS], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def table(found: Mapping[str, Any]) -> str:
    """Return the races as one table in CSV: the rate of each side, and how many times as fast supple is."""
    rows = [COLUMNS]
    for name, race in RACES.items():
        if name not in found:
            continue
        entry = found[name]
        rates = {side: values[best(values)] for side, values in entry["rates"].items()}
        about = f"{race.title}: {race.unit} ({entry['machine']['processor']}, {len(rates[OURS])} rounds)"
        for side, values in rates.items():
            ratios = [ours / theirs for ours, theirs in zip(rates[OURS], values, strict=True)]
            times = "" if side == OURS else spread(ratios, 2)
            asked = f"{race.bars[side]:.2g}" if side in race.bars else ""
            rate = spread(values, 0 if median(values) >= 100 else 1)
            rows.append((about if side == OURS else "", side, rate, best(entry["rates"][side]), times, asked))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def spread(values: Sequence[float], digits: int) -> str:
    low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return f"{middle:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"


def write(found: Mapping[str, Any]) -> None:
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    TABLE.write_text(table(found))


def main(args: Args) -> None:
    if unknown := [name for name in args.races if name not in RACES]:
        raise SystemExit(f"no race is called {', '.join(unknown)}; there are {', '.join(RACES)}")
    if lacking := {need for name in args.races for need in RACES[name].needs if not os.getenv(need)}:
        raise SystemExit(f"set {', '.join(sorted(lacking))}: see benchmarks/beside/sides_authors.py")
    if args.small:
        ended = [try_side(name, side) for name in args.races for side in RACES[name].sides]
        sys.exit(0 if all(ended) else 1)
    if args.install:
        install()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in args.races:
        rates = run(name, RACES[name], args.rounds)
        found[name] = {"machine": machine(), "versions": versions(), "rates": rates}
        write(found)
        print(table({name: found[name]}), flush=True)


if __name__ == "__main__":
    main(tyro.cli(Args))
