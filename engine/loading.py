"""Load the checkpoints of trained runs, to examine their networks or to act with them."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from supple.registry import quoted
from supple.registry.errors import RunError

from .loop import BEST, KEPT, Loop, Warn
from .machine.denormals import flushing_denormals
from .runs import attach_hooks, build
from .spec import read_spec
from .storage import checkpoint
from .storage.restoring import restoring
from .storage.run_directory import CHECKPOINTS, RunDirectory
from .work import Work


def steps_of(path: Path) -> dict[int, Path]:
    """Return the folders of all checkpoints of a run by step, including kept and best states, the oldest first.

    Raises UsageError if there is no run, RunError if it has no checkpoint.
    """
    places = (path / CHECKPOINTS, path / KEPT, path / BEST)
    folders = {int(folder.name): folder for place in places for folder in checkpoint.folders_of(place)}
    if not folders:
        read_spec(path)  # raises if this is no run
        raise RunError(
            f"{path} has no checkpoint yet: `supple resume {quoted(path)}` continues the run to its first one"
        )
    return dict(sorted(folders.items()))


def state_at(path: Path, step: int | None) -> tuple[int, Path]:
    """Return the step and the folder of a checkpoint of a run: that of a step, or the newest.

    Raises RunError if there is none.
    """
    folders = steps_of(path)
    found = max(folders) if step is None else step
    if found not in folders:
        raise RunError(f"{path} has no checkpoint at step {step}, only at {', '.join(map(str, folders))}")
    return found, folders[found]


def load_states(path: Path, folders: Mapping[int, Path], warn: Warn) -> Iterator[tuple[int, Work]]:
    """Yield the step and the work of a run for each of these checkpoints, with networks in evaluation mode.

    The same work is loaded with one state after another, in the order of `folders`, and its environments are closed
    after the last. Nothing is written.

    Raises:
        UsageError: The loaded plug-ins are not those that the run was started with.
        RunError: The run or a checkpoint cannot be read.
    """
    spec = read_spec(path)
    spec.require_plugins(path, more=True)
    run = RunDirectory(path, spec.resolved.identity)
    with flushing_denormals(spec.settings.torch_threads), closing(build(spec.kind_row, spec.settings, warn)) as work:
        loop = Loop(run, work, attach_hooks(work, spec.settings.hook, spec.start.step), 0, spec.end, warn)
        for step, folder in folders.items():
            tree = checkpoint.load(folder, run.identity)
            with restoring(folder.parent):
                loop.restore(tree)
            for learner in work.learners.values():
                learner.module.eval()
            yield step, work
