"""supple sweep: many runs from one file, as one queue.

  supple sweep rates.toml --out runs/rates --dry-run      what would be trained, and how long it would take
  supple sweep rates.toml --out runs/rates --jobs 2
  supple sweep rates.toml --out runs/rates --per-gpu 4    four on each GPU of this machine
  supple worker runs/rates                                another process, or machine, takes a share
  supple sweep rates.toml --out runs/rates                again, after values or seeds were added to the file
  supple sweep permuted-mnist --scale small --out runs/mnist      a table of a paper: supple list suites
  supple sweep random-label-cifar --setting data=DIR --out runs/cifar      with settings that the file cannot know
  supple sweep rates.toml --out runs/rates --on slurm --workers 20 --with timeout_min=240 slurm_partition=cpu
  supple sweep rates.toml --out runs/rates --on ray --workers 8 --with address=auto num_gpus=1 --per-gpu 4

A file has a table for each study:

  [rates]
  kind = "ppo"
  preset = "gym-control-small"
  arms = ["none", "fire@task", "l2_init(strength={strength})"]
  seeds = "0-4"
  settings = { steps_per_task = 20_000 }
  grid = { activation = ["relu", "tanh"], strength = [1e-4, 1e-3] }
  random = { count = 10, learning_rate = { low = 1e-4, high = 1e-2, log = true } }
  points = [{ hidden = [64, 64] }, { hidden = [256, 256] }]

What is finished is skipped, what was killed is resumed, what fails is set aside with its reason.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from supple.experiments.errors import UsageError
from supple.experiments.settings import positive
from supple.scripts import resume
from supple.scripts.asked import Plugins, load_plugins
from supple.scripts.console import parse, run, screen, typed, warn

if TYPE_CHECKING:
    from supple.experiments.jobs import Job
    from supple.experiments.starters import Workers
    from supple.experiments.workers import Watch

    Starter = Callable[[Workers], list[Any]]


@dataclass(kw_only=True)
class Options:
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A sweep file, in TOML, or the name of a suite (supple list suites)."""
    out: Path
    """Folder of the sweep; what has begun there goes on, and is widened by what the file has more."""
    jobs: int = 0
    """Runs at a time on this machine; 0: one per core."""
    on: Literal["local", "slurm", "ray"] = "local"
    """Where runs are trained: here, as jobs of Slurm (extra slurm), or as tasks of a Ray cluster (extra ray)."""
    workers: int = 1
    """Jobs of Slurm, or tasks of Ray; each takes run after run."""
    per_gpu: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Runs at a time on each GPU of this machine; elsewhere in each job or task, which share what it was given (1)."""
    given: Annotated[tuple[str, ...], tyro.conf.arg(name="with", metavar="NAME=VALUE …")] = ()
    """What a worker is given: options of submitit's update_parameters, or of Ray's tasks, and a cluster's address."""
    dry_run: bool = False
    """Print what would be trained, and how long it would take by a measured minute; train nothing."""
    search: Literal["random", "tpe"] | None = None
    """How arms are tuned whose studies have an entry search: at random, or by Optuna's estimator (extra search)."""
    scale: Literal["small", "paper"] = "paper"
    """small: the studies as their entry small changes them; paper: as they stand in the file."""
    setting: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE …")] = ()
    """Settings that all studies have besides those of the file: data=DIR, model=runs/base/model."""
    retry_failed: bool = False
    """Try those runs again that failed; without it they are left aside."""
    plugin: Plugins = ()
    """A Python file, or a package, with interventions and the like of your own. May be given several times."""


def main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        print((__doc__ or "").strip())
        return
    options = parse(Options, None, args, "supple sweep", "Train many runs from one file.", flags=True)
    load_plugins(args)

    from supple.experiments.suites import find_suite
    from supple.experiments.sweep_file import read_sweep  # PyTorch, which help texts do without

    file = options.file if options.file.suffix or options.file.exists() else find_suite(str(options.file))
    settings = dict(_named("setting", text, "data=DIR") for text in options.setting)
    sweep, jobs = read_sweep(file, options.scale, options.search, settings), processes(options)
    if options.dry_run:
        foretell(sweep.planned(options.out, jobs, warn), jobs)
        return
    start = starter(options)
    retry, trained = options.retry_failed, False
    while True:  # where arms are tuned, what comes next depends on what was trained before
        every = sweep.begin(options.out, jobs, typed("supple sweep", args), warn)
        failed, left = sum(job.failed for job in every), sum(job.open for job in every)
        finished = len(every) - left - failed
        if trained and not left:
            break
        screen.print(f"{len(every):,} runs in {options.out}: {finished:,} finished, {failed:,} failed, {left:,} to go")
        if not left and not (failed and retry):
            screen.print(f"nothing is left to train; `supple report {options.out}` makes the reports")
            return
        resume.go_on(options.out, every, jobs, retry, start and partial(elsewhere, options, every, start))
        retry, trained = False, True
        if any(job.open for job in every):  # the workers elsewhere have stopped
            break
    resume.report(options.out, every)


def processes(o: Options) -> int:
    """Return how many runs go on at a time on this machine. Raises UsageError."""
    if o.on != "local" or o.per_gpu is None:
        return resume.workers(o.jobs)
    positive(**{"--per-gpu": o.per_gpu})
    if o.jobs:
        raise UsageError("--jobs and --per-gpu both say how many runs go on at a time here: give one of them")
    from supple.experiments.machine import gpus

    if not (found := gpus()):
        raise UsageError("--per-gpu: PyTorch finds no CUDA GPU here; --jobs says how many runs go on at a time")
    return o.per_gpu * len(found)


def starter(o: Options) -> "Starter | None":
    """Return what starts workers on other machines; None where this one does the work. Raises UsageError."""
    if o.on == "local":
        if o.workers != 1 or o.given:
            named = "workers" if o.workers != 1 else "with"
            raise UsageError(f"--{named} is for --on slurm and --on ray; here it is --jobs")
        return None
    positive(**{"--workers": o.workers, "--per-gpu": o.per_gpu})
    given = dict(map(_option, o.given))

    from supple.experiments.starters import on_ray, on_slurm

    return lambda workers: (on_slurm if o.on == "slurm" else on_ray)(workers, o.workers, given)


def elsewhere(o: Options, every: "Sequence[Job]", start: "Starter", watch: "Watch") -> None:
    """Start workers, and wait until they have brought all runs to their end."""
    from supple.experiments.starters import Workers, watch_over

    if any(job.open for job in every):
        watch_over(every, start(Workers(str(o.out.absolute()), o.per_gpu or 1)), watch, warn)


def _option(text: str) -> tuple[str, object]:
    """Return an option and its value: a number, true or false, a dictionary as in JSON, or else a text."""
    name, value = _named("with", text, "timeout_min=240")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _named(option: str, text: str, such: str) -> tuple[str, str]:
    """Return `NAME=VALUE` in two. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--{option} {text}: give NAME=VALUE, such as {such}")
    return name, value


def foretell(every: "Sequence[Job]", jobs: int) -> None:
    """Print what would be trained, and how long it would take."""
    from rich.table import Table

    from supple.experiments.estimate import estimates

    for job in every:
        state = "at its end" if not job.open else "to be trained"
        screen.print(f"{job.folder}: {state}", soft_wrap=True, highlight=False)
    table = Table("study", "runs left", "steps", "steps/s of one run", f"time, {jobs} at a time")
    hours = 0.0
    for found in estimates(every):
        hours += found.hours(jobs)
        own = (f"{found.runs:,}", f"{found.steps:,}", f"{found.speed:,.0f}", _words(found.hours(jobs)))
        table.add_row(found.study, *own)
    table.add_row("in all", "", "", "", _words(hours), style="bold")
    screen.print(table)


def _words(hours: float) -> str:
    """Return a duration in the unit in which it has a digit or two before the point."""
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"


if __name__ == "__main__":
    run(main)
