"""supple worker: take run after run of a sweep or a comparison, until none is left.

supple worker runs/rates
supple worker runs/rates --plugin my_method.py

Any number of workers, on any number of machines that share the folder, divide the runs among themselves: each claims
the next that nobody has. It needs no server; who is killed leaves runs that others go on with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from supple.experiments import plugins
from supple.experiments.errors import RunError, UsageError
from supple.experiments.interruption import at_interruption
from supple.scripts.asked import Plugins, load_plugins
from supple.scripts.console import parse, run, screen, warn
from supple.scripts.progress import display
from supple.scripts.resume import what_lies_in

if TYPE_CHECKING:
    from supple.experiments.claim import Claim
    from supple.experiments.jobs import Job


@dataclass(kw_only=True)
class Options:
    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Folder of a sweep or of a comparison."""
    plugin: Plugins = ()
    """A plug-in that it was begun with: each has to be named again."""


def main(args: Sequence[str]) -> None:
    if not args:
        print((__doc__ or "").strip())
        return
    options = parse(Options, None, args, "supple worker", "Take run after run of a sweep, until none is left.")
    load_plugins(args)
    path = options.directory
    if what_lies_in(path) == "a run":
        raise UsageError(f"{path} is a single run: `supple resume {path}` goes on with it")

    from supple.experiments.denormals import flushing_denormals  # PyTorch, which help texts do without

    with flushing_denormals():  # from the beginning, so that PyTorch's threads are begun with it
        work(path)


def work(path: Path) -> None:
    """Take run after run. Raises RunError if any failed, when none is left."""
    from supple.experiments.jobs import work_off
    from supple.experiments.sweep import open_queue

    every = open_queue(path, 1, warn)

    def words() -> str:
        ended = sum(job.outcome is not None for job in every)
        return f"{ended} of {len(every)} runs ended; `supple worker {path}{plugins.options()}` goes on"

    def attempt(job: "Job", held: "Claim") -> None:
        job.attempt(held, lambda step, end: shown.update(job.label, job.folder, step, end), warn)

    before = sum(job.outcome is not None for job in every)
    with display(screen, len(every), before) as shown, at_interruption(words):
        work_off(every, attempt)
    failed = sum(job.failed for job in every)
    screen.print(f"no run of {path} is left: {len(every)} in all, {failed} failed")
    if failed:
        raise RunError(f"{failed} of {len(every)} runs failed; `supple resume {path} --retry-failed` tries them again")


if __name__ == "__main__":
    run(main)
