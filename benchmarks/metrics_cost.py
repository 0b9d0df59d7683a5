"""What do measurements cost? All cheap metrics every 1,000 updates, as a share of the time of training.

    supple fetch mnist
    python benchmarks/metrics_cost.py [--rounds 9] [--updates 250] [--no-compile] [--no-flush]

Random-label MNIST, five seeds of the MLP as one stack, as in `seeds_stacked.py`, one thread. In each round the stack
learns for `updates` steps, is then measured as in a run (every cheap metric of every seed, that of dormant units by
layer too; lines written), and then the costly metrics are taken: medians of the rounds, with the smallest and largest.
Then each metric by itself; what several need, such as the pass over the data or the features' singular values, counts
in each of them. Criterion: at most 2 % of the time.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tyro
from rich.console import Console
from rich.table import Table
from seeds_stacked import COMPILED, EAGER, SEEDS, Stacked
from timing import Options, Rounds, begin, seconds

from supple.engine.spec import RunSpec, write_config
from supple.engine.storage.run_directory import RunDirectory
from supple.metrics import METRICS, View, cheap_metrics
from supple.tracks.vision.data import load

EVERY = 1000  # updates between measurements
ALL = "all cheap metrics, logged"


@dataclass(frozen=True)
class Args(Options):
    rounds: int = 9  # of training and measuring
    updates: int = 250  # gradient steps of a round
    compile: bool = True  # off: train eager, which takes longer


def measure_and_log(stack: Stacked, run: RunDirectory) -> None:
    """Measure every seed and write a line for each, as the loop does."""
    for seed, values in zip(SEEDS, stack.work.measure(costly=False), strict=True):
        run.metrics(stack.step, values, seed=seed)
    run.flush()
    stack.work.model.learner.mark()


def time_alone(stack: Stacked, name: str) -> Callable[[], object]:
    return lambda: METRICS[name].value(View(stack.work.model.learner))


def main(args: Args) -> bool:
    begin(1, args.flush)
    stack = Stacked(load("mnist", None), args.compile)
    stack.work.model.learner.mark()
    cheap = [name for name in cheap_metrics() if f"model/{name}" in stack.work.measure(costly=False)[0]]
    costly = [name for name in METRICS if name not in cheap_metrics()]
    updates, times = Rounds(2), {name: Rounds() for name in (ALL, *costly)}
    config = write_config(RunSpec("vision", stack.work.settings), stack.work)
    with tempfile.TemporaryDirectory() as folder, RunDirectory.create(Path(folder) / "run", config) as run:
        run.start_logs({}, 0.0, stack.work.logs)
        calls = {ALL: lambda: measure_and_log(stack, run), **{name: time_alone(stack, name) for name in costly}}
        for number in range(1 + args.rounds):
            took = seconds(lambda: [stack() for _ in range(args.updates)]) / args.updates
            found = {name: seconds(call) for name, call in calls.items()}
            if number:  # the first round warms up
                updates.values.append(1e3 * took)
                for name, value in found.items():
                    times[name].values.append(1e3 * value)
    singly = {name: 1e3 * median(seconds(time_alone(stack, name)) for _ in range(args.rounds)) for name in cheap}

    trained = EVERY * updates.median
    table = Table(title=f"{len(SEEDS)} seeds, {COMPILED if args.compile else EAGER}: {updates} ms an update")
    for column in ("every 1,000 updates", "ms: median (min–max)", "of the time"):
        table.add_column(column, justify="left" if column.startswith("every") else "right")
    for name, values in times.items():
        table.add_row(name, str(values), f"{values.median / (trained + values.median):.2%}")
    for name, value in sorted(singly.items(), key=lambda item: -item[1]):
        table.add_row(f"  {name}", f"{value:.1f}", f"{value / (trained + value):.2%}")
    Console(width=110).print(table)
    share = times[ALL].median / (trained + times[ALL].median)
    print(f"at most 2 % for all cheap metrics: {'yes' if share <= 0.02 else 'NO'} ({share:.2%})")
    return share <= 0.02


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
