"""Train the runs of a sweep or a comparison one after another, until none remains.

  supple worker runs/rates
  supple worker runs/rates --plugin my_method.py

Any number of workers, on any number of machines that share the folder, can work on one sweep without a server: each
claims the next free run. If a worker is killed, others resume its run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from supple.engine.user_code import plugins
from supple.registry import quoted
from supple.registry.errors import RunError, UsageError
from supple.registry.interruption import at_interruption
from supple.scripts.cli import training
from supple.scripts.cli.console import ignore_output_failures, parse_or_explain, run, say, screen, warn
from supple.scripts.cli.options import Plugins, load_plugins
from supple.scripts.cli.plan import plan_of_queue
from supple.scripts.cli.progress import display

if TYPE_CHECKING:
    from supple.engine.storage.claim import Claim
    from supple.experiments.queue.queue import QueuedRun


@dataclass(kw_only=True)
class Options:
    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Folder of a sweep or a comparison."""
    plugin: Plugins = ()
    """Plug-in that the sweep was started with. Each has to be named again."""


def main(args: Sequence[str]) -> None:
    if (options := parse_or_explain(Options, args, "supple worker", __doc__)) is None:
        return
    load_plugins(args)
    path = options.directory
    if training.identify_folder(path) == "a run":
        raise UsageError(f"{path} is a single run: `supple resume {quoted(path)}` continues it")

    from supple.engine.machine.denormals import flushing_denormals  # imports PyTorch, which help does not need

    with flushing_denormals():  # first, so that PyTorch's threads inherit it
        work(path)


def work(path: Path) -> None:
    """Train one run after another.

    Raises:
        RunError: Runs failed. It is raised when none remains.
    """
    from supple.experiments.sweeps.sweep import open_queue

    ignore_output_failures()
    queue = open_queue(path, warn)

    def explain_continuing() -> str:
        ended = f"{queue.ended} of {len(queue)} runs ended"
        return f"{ended}; `supple worker {quoted(path)}{plugins.options()}` continues"

    def train(run: "QueuedRun", claim: "Claim") -> None:
        run.train(claim, lambda step, end: progress.update(run.label, run.folder, step, end), warn)

    training.warn_of_other_versions(path, queue)
    say(*plan_of_queue(path, queue, 1))
    with display(screen, len(queue), queue.ended) as progress, at_interruption(explain_continuing):
        queue.work_off(train)
    failed = len(queue.failed)
    say(f"all {len(queue)} runs of {path} have ended, {failed} of them failed")
    if failed:
        raise RunError(
            f"{failed} of {len(queue)} runs failed; `supple resume {quoted(path)} --retry-failed` trains them again"
        )


if __name__ == "__main__":
    run(main)
