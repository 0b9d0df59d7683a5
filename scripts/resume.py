"""supple resume: go on with what lies in a folder, a run of any kind or a comparison.

supple resume runs/a
supple resume runs/y --jobs 2
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from supple.experiments.errors import UsageError
from supple.scripts.console import parse, progress_display, run, screen, warn

if TYPE_CHECKING:
    from supple.experiments.compare import Comparison


@dataclass(kw_only=True)
class Options:
    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Folder of a run or of a comparison; it goes on from its newest intact checkpoints."""
    jobs: int = 0
    """Runs of a comparison at a time; 0: one per core."""


def main(args: Sequence[str]) -> None:
    if not args:
        print((__doc__ or "").strip())
        return
    options = parse(Options, None, args, "supple resume", "Go on with a run or a comparison.")
    path = options.directory
    if (path / "comparison.json").is_file():
        from supple.experiments.compare import open_comparison

        jobs = workers(options.jobs)
        finish_comparison(path, open_comparison(path, jobs, warn), jobs)
    elif not (path / "config.json").is_file():
        raise UsageError(f"{path} holds no run (it has no config.json) and no comparison (comparison.json)")
    elif options.jobs:
        raise UsageError(f"--jobs is for comparisons, and {path} is a run")
    else:
        finish_run(path)


def workers(jobs: int) -> int:
    """Return how many processes `--jobs` asks for."""
    if jobs < 0:
        raise UsageError(f"--jobs must be 0 (one per core) or more, got {jobs}")
    return jobs or os.cpu_count() or 1


def finish_run(path: Path) -> None:
    """Train the run in `path` to its last step, with a progress bar, and say where it lies."""
    from supple.experiments import distributed
    from supple.experiments.rundir import RunDirectory
    from supple.experiments.runs import train

    if not distributed.first():
        with contextlib.suppress(KeyboardInterrupt):
            train(path, lambda step: None, lambda line: None)
        return
    with progress_display() as display:
        bar = display.add_task(str(path), total=RunDirectory.open(path).end)
        train(path, lambda step: display.update(bar, completed=step), warn)
    screen.print(f"done: {path}  (`supple report {path}` makes the report)")


def finish_comparison(path: Path, comparison: "Comparison", jobs: int) -> None:
    """Run what is left of a comparison, with a bar for each run, then report."""
    from rich.progress import TaskID

    from supple.experiments.compare import run_comparison
    from supple.scripts.report import show

    bars: dict[str, TaskID] = {}
    with progress_display() as display:

        def watch(label: str, step: int, end: int) -> None:
            if label not in bars:
                bars[label] = display.add_task(label, total=end)
            display.update(bars[label], completed=step)

        run_comparison(path, comparison, jobs, watch, warn)
    screen.print()
    show(path)


if __name__ == "__main__":
    run(main)
