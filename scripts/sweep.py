"""Train all runs that a sweep file asks for, as one queue.

  supple sweep rates.toml --out runs/rates --dry-run      print the runs and their estimated time
  supple sweep rates.toml --out runs/rates --jobs 2       train two runs at a time
  supple sweep rates.toml --out runs/rates --per-gpu 4    train four on each GPU of this machine
  supple worker runs/rates                                help from another process or machine
  supple sweep rates.toml --out runs/rates                again, after values or seeds were added to the file
  supple sweep permuted-mnist --scale small --out runs/mnist      a suite: supple list suites
  supple sweep random-label-cifar --setting data=DIR --out runs/cifar      with a setting of this machine
  supple sweep rates.toml --out runs/rates --on slurm --workers 20 --with timeout_min=240 slurm_partition=cpu
  supple sweep rates.toml --out runs/rates --on ray --workers 8 --with address=auto num_gpus=1 --per-gpu 4

The file has one table for each study:

  [rates]
  kind = "ppo"
  preset = "gym-control-small"
  arms = ["none", "fire@task", "l2_init(strength={strength})"]
  seeds = "0-4"
  settings = { steps_per_task = 20_000 }
  grid = { activation = ["relu", "tanh"], strength = [1e-4, 1e-3] }
  random = { count = 10, learning_rate = { low = 1e-4, high = 1e-2, log = true } }
  points = [{ hidden = [64, 64] }, { hidden = [256, 256] }]

Finished runs are skipped, and killed runs are resumed. A failed run does not stop the others; its reason is recorded.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from supple.engine.settings import positive
from supple.registry import quoted
from supple.registry.errors import UsageError
from supple.scripts.cli import training
from supple.scripts.cli.console import explain, join_command, parse, run, say, screen, warn
from supple.scripts.cli.options import Plugins, load_plugins

if TYPE_CHECKING:
    from supple.experiments.queue.queue import Queue
    from supple.experiments.queue.workers import Watch
    from supple.experiments.sweeps.launchers import QueueWorker

    Starter = Callable[[QueueWorker], list[Any]]


@dataclass(kw_only=True)
class Options:
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Sweep file in TOML, or the name of a suite (`supple list suites`)."""
    out: Path
    """Folder of the sweep. Runs in it are resumed, and runs that are new in the file are added."""
    jobs: int = 0
    """Number of runs at a time on this machine. 0 means one per core."""
    on: Literal["local", "slurm", "ray"] = "local"
    """Where to train: this machine, Slurm jobs (extra slurm), or tasks of a Ray cluster (extra ray)."""
    workers: int = 1
    """Number of Slurm jobs or Ray tasks. Each trains one run after another."""
    per_gpu: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Number of runs at a time on each GPU of this machine, or in each Slurm job or Ray task (there None means 1)."""
    given: Annotated[tuple[str, ...], tyro.conf.arg(name="with", metavar="NAME=VALUE …")] = ()
    """Options of the workers: parameters of submitit's executor, or Ray's task resources and cluster address."""
    dry_run: bool = False
    """Print the runs and their estimated time, which takes a minute to measure. Nothing is kept."""
    search: Literal["random", "tpe"] | None = None
    """How to tune arms in studies with an entry search: at random, or by Optuna's TPE (extra search)."""
    scale: Literal["small", "paper"] = "paper"
    """paper: the studies as written in the file. small: with the changes in their entry `small`."""
    setting: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE …")] = ()
    """Settings for all studies in addition to those in the file, such as data=DIR."""
    retry_failed: bool = False
    """Train failed runs again, from their last checkpoints. Without it they are skipped."""
    plugin: Plugins = ()
    """Python file or package that registers your own interventions, metrics, shifts or kinds of runs."""


def main(args: Sequence[str]) -> None:
    if not args:
        explain(__doc__, "supple sweep")
        return
    options = parse(Options, None, args, "supple sweep", __doc__ or "", flags=True)
    load_plugins(args)

    from supple.experiments.sweeps.file import read_sweep  # imports PyTorch, which help does not need
    from supple.experiments.sweeps.suites import find_suite

    file = options.file if options.file.suffix or options.file.exists() else find_suite(str(options.file))
    settings = dict(_named("setting", text, "data=DIR") for text in options.setting)
    sweep, jobs = read_sweep(file, options.scale, options.search, settings), processes(options)
    if options.dry_run:
        print_estimates(sweep.preview(options.out, jobs, warn), jobs)
        return
    start = starter(options)
    retry, trained = options.retry_failed, False
    while True:  # if arms are tuned, the next runs depend on the results so far
        queue = sweep.begin(options.out, jobs, join_command("supple sweep", args), warn)
        failed, left = len(queue.failed), len(queue.left)
        if trained and not left:
            break
        if not left and not (failed and retry):
            say(
                f"{len(queue):,} runs have ended, {failed:,} of them failed",
                f"next: supple report {quoted(options.out)}",
            )
            return
        elsewhere = partial(train_elsewhere, options, queue, start) if start else None
        training.train_queue(options.out, queue, jobs, retry, elsewhere)
        retry, trained = False, True
        if queue.left:  # workers on other machines have stopped
            break
    training.report_queue(options.out, queue)


def processes(o: Options) -> int:
    """Return the number of runs at a time on this machine."""
    if o.on != "local" or o.per_gpu is None:
        return training.count_processes(o.jobs)
    positive(**{"--per-gpu": o.per_gpu})
    if o.jobs:
        raise UsageError("--jobs and --per-gpu both set the number of runs at a time: give one of them")
    from supple.engine.machine.resources import gpus

    if not (found := gpus()):
        raise UsageError("--per-gpu: PyTorch finds no CUDA GPU here; use --jobs")
    return o.per_gpu * len(found)


def starter(o: Options) -> "Starter | None":
    """Return the function that starts workers on other machines, or None if this machine trains."""
    if o.on == "local":
        if o.workers != 1 or o.given:
            named = "workers" if o.workers != 1 else "with"
            raise UsageError(f"--{named} is for --on slurm and --on ray; for this machine use --jobs")
        return None
    positive(**{"--workers": o.workers, "--per-gpu": o.per_gpu})
    given = dict(map(_option, o.given))

    from supple.experiments.sweeps.launchers import on_ray, on_slurm

    return lambda workers: (on_slurm if o.on == "slurm" else on_ray)(workers, o.workers, given)


def train_elsewhere(o: Options, queue: "Queue", start: "Starter", watch: "Watch") -> None:
    """Start workers on other machines, and wait until they have finished all runs."""
    from supple.experiments.sweeps.launchers import QueueWorker, watch_over

    if queue.left:
        watch_over(queue, start(QueueWorker(str(o.out.absolute()), o.per_gpu or 1)), watch, warn)


def _option(text: str) -> tuple[str, object]:
    """Return an option and its value, which is read as JSON, or else as a text."""
    name, value = _named("with", text, "timeout_min=240")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _named(option: str, text: str, such: str) -> tuple[str, str]:
    """Return the two parts of `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--{option} {text}: expected NAME=VALUE, such as {such}")
    return name, value


def print_estimates(queue: "Queue", jobs: int) -> None:
    """Print the runs of a sweep and their estimated time."""
    from rich.table import Table

    from supple.experiments.sweeps.estimate import estimates

    for queued in queue:
        say(f"{queued.folder}: {'to be trained' if queued.open else 'ended'}")
    table = Table("study", "remaining runs", "steps", "steps/s of one run", f"time, {jobs} at a time")
    hours = 0.0
    for estimate in estimates(queue):
        hours += estimate.hours(jobs)
        runs = f"{estimate.runs:,}" + (f" and {estimate.trunks:,} trunks" if estimate.trunks else "")
        time = _words(estimate.hours(jobs))
        table.add_row(estimate.study, runs, f"{estimate.steps:,}", f"{estimate.speed:,.0f}", time)
    table.add_row("total", "", "", "", _words(hours), style="bold")
    screen.print(table)


def _words(hours: float) -> str:
    """Return a duration in days, hours or minutes, whichever suits its size."""
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"


if __name__ == "__main__":
    run(main)
