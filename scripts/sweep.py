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
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from supple.registry.errors import UsageError
from supple.registry.schema import NotNegative, Positive
from supple.scripts.cli import training
from supple.scripts.cli.console import join_command, say, screen, warn
from supple.scripts.cli.options import Plugins, parse_or_explain

if TYPE_CHECKING:
    from supple.experiments.queue.queue import Queue
    from supple.experiments.queue.workers import Watch


@dataclass(kw_only=True)
class Options:
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Sweep file in TOML, or the name of a suite (`supple list suites`)."""
    out: Path
    """Folder of the sweep. Runs in it are resumed, and runs that are new in the file are added."""
    jobs: NotNegative[int] = 0
    """Number of runs at a time on this machine. 0 means one per core."""
    on: Literal["local", "slurm", "ray"] = "local"
    """Where to train: this machine, Slurm jobs (extra slurm), or tasks of a Ray cluster (extra ray)."""
    workers: Positive[int] = 1
    """Number of Slurm jobs or Ray tasks. Each trains one run after another."""
    per_gpu: Positive[int] | None = None
    """Number of runs at a time on each GPU of this machine, or in each Slurm job or Ray task (default there: 1)."""
    given: Annotated[tuple[str, ...], tyro.conf.arg(name="with", metavar="NAME=VALUE …")] = ()
    """Options of the workers: parameters of submitit's executor, or Ray's task resources and cluster address."""
    dry_run: bool = False
    """Print the runs and their estimated time, which takes a minute to measure. Nothing is kept."""
    search: Literal["random", "tpe"] | None = None
    """How to tune arms in studies with an entry search: at random, or by Optuna's TPE (extra search)."""
    scale: Literal["small", "paper"] = "paper"
    """paper: the studies as written in the file. small: with the changes in their entry `small`."""
    study: Annotated[tuple[str, ...], tyro.conf.arg(metavar="STUDY …")] = ()
    """Studies of the file to train (default: all). Others can be added to the folder later."""
    setting: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE …")] = ()
    """Settings for all studies in addition to those in the file, such as data=DIR."""
    retry_failed: bool = False
    """Train failed runs again, from their last checkpoints. Their plug-ins may have been mended. Default: skip them."""
    plugin: Plugins = ()
    """Python file or package that registers your own interventions, metrics, shifts or kinds of runs."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple sweep", __doc__)
    from supple.experiments.sweeps.file import read_sweep  # imports PyTorch, which help does not need
    from supple.experiments.sweeps.suites import find_suite
    from supple.experiments.sweeps.sweep import FILE, retry_failed

    file = options.file if options.file.suffix or options.file.exists() else find_suite(str(options.file))
    settings = dict(_split_assignment("setting", text, "data=DIR") for text in options.setting)
    sweep = read_sweep(file, options.scale, options.search, settings, options.study)
    processes = count_processes(options)
    if options.dry_run:
        print_estimates(sweep.preview(options.out, processes, warn), processes)
        return
    elsewhere = find_launcher(options)
    if options.retry_failed and (options.out / FILE).is_file():
        retry_failed(options.out)
    queue = sweep.begin(options.out, processes, join_command("supple sweep", args), warn)
    training.finish_queue(options.out, queue, processes, elsewhere)


def count_processes(options: Options) -> int:
    """Return the number of runs at a time on this machine."""
    if options.on != "local" or options.per_gpu is None:
        return training.count_processes(options.jobs)
    if options.jobs:
        raise UsageError("--jobs and --per-gpu both set the number of runs at a time: give one of them")
    from supple.engine.machine.resources import gpus

    count = len(gpus())
    if not count:
        raise UsageError("--per-gpu: PyTorch finds no CUDA GPU here; use --jobs")
    return options.per_gpu * count


def find_launcher(options: Options) -> "Callable[[Queue, Watch], None] | None":
    """Return the function that trains a queue by workers on other machines, or None if this machine trains."""
    if options.on == "local":
        if options.workers != 1 or options.given:
            option = "workers" if options.workers != 1 else "with"
            raise UsageError(f"--{option} is for --on slurm and --on ray; for this machine use --jobs")
        return None
    parameters = dict(map(_parse_parameter, options.given))

    from supple.experiments.sweeps.launchers import QueueWorker, on_ray, on_slurm, watch_over

    def train(queue: "Queue", watch: "Watch") -> None:
        worker = QueueWorker(str(options.out.absolute()), options.per_gpu or 1)
        started = (on_slurm if options.on == "slurm" else on_ray)(worker, options.workers, parameters)
        watch_over(queue, started, watch, warn)

    return train


def _parse_parameter(text: str) -> tuple[str, object]:
    """Return an option and its value, which is read as JSON, or else as a text."""
    name, value = _split_assignment("with", text, "timeout_min=240")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _split_assignment(option: str, text: str, example: str) -> tuple[str, str]:
    """Return the two parts of `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--{option} {text}: expected NAME=VALUE, such as {example}")
    return name, value


def print_estimates(queue: "Queue", processes: int) -> None:
    """Print the runs of a sweep and their estimated time."""
    from rich.table import Table

    from supple.experiments.sweeps.estimate import estimates

    for queued in queue:
        say(f"{queued.folder}: {'to be trained' if queued.open else 'ended'}")
    table = Table("study", "remaining runs", "steps", "steps/s of one run", f"time, {processes} at a time")
    hours = 0.0
    for estimate in estimates(queue, say):
        study_hours = estimate.steps / estimate.speed / 3600 / processes  # if runs do not slow each other
        hours += study_hours
        plural = "s" * (estimate.trunks > 1)
        runs = f"{estimate.runs:,}" + (f" and {estimate.trunks:,} trunk{plural}" if estimate.trunks else "")
        table.add_row(estimate.study, runs, f"{estimate.steps:,}", f"{estimate.speed:,.0f}", _format_hours(study_hours))
    table.add_row("total", "", "", "", _format_hours(hours), style="bold")
    screen.print(table)


def _format_hours(hours: float) -> str:
    """Return a duration in days, hours or minutes, whichever suits its size."""
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"
