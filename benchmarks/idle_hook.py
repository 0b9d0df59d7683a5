"""What do hooks cost while they have nothing to do? Two training runs, with and without idle hooks.

    OMP_NUM_THREADS=1 python benchmarks/idle_hook.py

The runs take turns, an iteration each, in one process, so that a busy machine slows both alike; which of them
comes first alternates from round to round, for two identical runs can differ by some per cent in where their memory
lies. The hooks are one that fires at the very end and one on a metric that never gets there. Criterion: less than
1 % of the time. The last line times the hooks' calls alone, which no noise can hide.
"""

import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table
from timing import begin

from supple.agents.ppo import PPOSettings
from supple.engine.kinds import find_kind
from supple.engine.runs import attach_hooks, build, open_run, prepare
from supple.engine.spec import RunSpec

IDLE = ("fire@1.0", "fire@when:dormant_fraction>0.999")
ITERATION = 8 * 256  # environment steps between two updates
WARM_UP = 3  # iterations of each run that are not counted


@dataclass(frozen=True)
class Args:
    rounds: int = 8  # pairs of runs, at least 2
    iterations: int = 14  # of 2,048 environment steps each, for each run
    env: str = "HalfCheetah-v5"  # the environment of all runs


@dataclass
class Run:
    """A training run that works only when it has the turn, and passes it on after every iteration."""

    hooks: tuple[str, ...]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    seconds: list[float] = field(default_factory=list)

    def train(self, path: Path, args: Args, other: "Run") -> None:
        settings = PPOSettings(env=args.env, steps=args.iterations * ITERATION, hook=self.hooks, eval_episodes=0,
                               compile="off")  # fmt: skip
        self.turn.acquire()
        prepare(RunSpec("ppo", settings, command="benchmarks/idle_hook.py"), path).close()
        start = time.perf_counter()

        def hand_over(step: int) -> None:
            nonlocal start
            if step:
                self.seconds.append(time.perf_counter() - start)
            other.turn.release()
            self.turn.acquire()
            start = time.perf_counter()

        open_run(path, print).train(hand_over)
        other.turn.release()


def train_in_turn(first: Run, second: Run, args: Args) -> None:
    """Train both, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        threads = [
            threading.Thread(target=run.train, args=(Path(folder) / str(i), args, other))
            for i, (run, other) in enumerate(((first, second), (second, first)))
        ]
        for thread in threads:
            thread.start()
        first.turn.release()
        for thread in threads:
            thread.join()


def time_idle_hooks(args: Args, repeats: int = 1000) -> float:
    """Return the seconds that the loop spends in idle hooks per iteration, with a measurement in each."""
    settings = PPOSettings(env=args.env, steps=ITERATION, hook=IDLE, compile="off")
    hooks = attach_hooks(build(find_kind("ppo"), settings), IDLE)
    start = time.perf_counter()
    for _ in range(repeats):
        hooks.after_steps(0, 1)
        hooks.after_measurement(1, {"agent/dormant_fraction": 0.0})
    return (time.perf_counter() - start) / repeats


def main(args: Args) -> bool:
    begin(1)  # as the runs themselves do
    times: dict[tuple[str, ...], list[float]] = {(): [], IDLE: []}
    ratios = []
    for i in range(args.rounds):
        without, idle = Run(()), Run(IDLE)
        train_in_turn(*((without, idle) if i % 2 else (idle, without)), args)
        # The last iteration holds the end of the run, and the intervention that waited for it.
        counted = {run.hooks: run.seconds[WARM_UP:-1] for run in (without, idle)}
        for hooks, seconds in counted.items():
            times[hooks] += seconds
        # Neighbours in time saw the same machine: their ratio is steadier than either time.
        ratios.append(statistics.median(b / a for a, b in zip(*counted.values(), strict=True)))

    table = Table(title=f"PPO on {args.env}, {args.rounds} × {args.iterations} iterations each, in turn")
    for column in ("hooks", "ms/iteration: median (min–max)", "steps/s"):
        table.add_column(column, justify="left" if column == "hooks" else "right")
    for hooks, seconds in times.items():
        low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
        spread = f"{1e3 * middle:.0f} ({1e3 * low:.0f}–{1e3 * high:.0f})"
        table.add_row(" + ".join(hooks) or "none", spread, f"{ITERATION / middle:,.0f}")
    console = Console(width=110)
    console.print(table)
    cost, error = statistics.fmean(ratios) - 1, statistics.stdev(ratios) / len(ratios) ** 0.5
    console.print(
        f"idle hooks cost {cost:+.2%} ± {error:.2%} of the time (mean and standard error of {len(ratios)} rounds)"
    )
    alone = time_idle_hooks(args)
    console.print(f"their calls alone: {1e6 * alone:.0f} µs an iteration, {alone / statistics.median(times[()]):.4%}")
    passed = cost < 0.01
    console.print(f"less than 1 %: {'yes' if passed else 'NO'}")
    return passed


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
