"""supple sweep: many runs from one file, as one queue.

  supple sweep rates.toml --out runs/rates --dry-run      what would be trained, and how long it would take
  supple sweep rates.toml --out runs/rates --jobs 2
  supple worker runs/rates                                another process, or machine, takes a share
  supple sweep rates.toml --out runs/rates                again, after values or seeds were added to the file

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

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from supple.scripts import resume
from supple.scripts.asked import Plugins, load_plugins
from supple.scripts.console import parse, run, screen, typed, warn

if TYPE_CHECKING:
    from supple.experiments.jobs import Job


@dataclass(kw_only=True)
class Options:
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A sweep file, in TOML."""
    out: Path
    """Folder of the sweep; what has begun there goes on, and is widened by what the file has more."""
    jobs: int = 0
    """Runs at a time in this process's own workers; 0: one per core."""
    dry_run: bool = False
    """Print what would be trained, and how long it would take by a measured minute; train nothing."""
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

    from supple.experiments.sweep_file import read_sweep  # PyTorch, which help texts do without

    sweep, jobs = read_sweep(options.file), resume.workers(options.jobs)
    if options.dry_run:
        foretell(sweep.planned(options.out, jobs, warn), jobs)
        return
    every = sweep.begin(options.out, jobs, typed("supple sweep", args), warn)
    left = [job for job in every if job.open]
    screen.print(f"{len(every)} runs in {options.out}: {len(every) - len(left)} at their end, {len(left)} to go")
    resume.finish(options.out, every, jobs, options.retry_failed)


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
