"""Train the runs of a sweep or a comparison one after another, until none remains.

  supple worker runs/rates
  supple worker runs/rates --plugin my_method.py

Any number of workers, on any number of machines that share the folder, can work on one sweep without a server: each
takes the next free run. If a worker is killed, others resume its run. A search that tunes arms goes on to its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from supple.engine.user_code import plugins
from supple.registry.errors import RunError, UsageError
from supple.scripts.cli import training
from supple.scripts.cli.console import say, warn
from supple.scripts.cli.options import Folder, Plugins, parse_or_explain

if TYPE_CHECKING:
    from supple.experiments.queue.queue import Queue


@dataclass(kw_only=True)
class Options:
    directory: Folder
    """Folder of a sweep or a comparison."""
    plugin: Plugins = ()
    """Plug-in that the sweep was started with. Each has to be named again."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple worker", __doc__)
    path = options.directory
    if training.identify_folder(path) == "a run":
        raise UsageError(f"{path} is a single run: `{plugins.command('resume', path)}` continues it")

    from supple.engine.machine.denormals import flushing_denormals  # imports PyTorch, which help does not need

    with flushing_denormals():  # first, so that PyTorch's threads inherit it
        work(path)


def work(path: Path) -> None:
    """Train one run after another.

    Raises:
        RunError: Runs failed. It is raised when none remains.
    """
    from supple.experiments.sweeps.sweep import finish, open_queue

    def train(queue: "Queue") -> None:
        with training.watching(path, queue, 1, "worker") as watch:
            queue.work_off(lambda run, held: run.train(held, partial(watch, run), warn))

    queue = finish(path, open_queue(path, 1, warn), train, 1, warn)
    failed = len(queue.failed)
    say(f"all {len(queue)} runs of {path} have ended, {failed} of them failed")
    if failed:
        raise RunError(
            f"{failed} of {len(queue)} runs failed; `{plugins.command('resume', path)} --retry-failed` "
            "trains them again"
        )
