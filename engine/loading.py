"""Load the checkpoints of trained runs, to examine their networks or to act with them."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from supple.registry import one_line
from supple.registry.errors import RunError

from .loop import BEST, KEPT, Loop, Warn
from .machine.denormals import flushing_denormals
from .runs import attach_hooks, build
from .spec import read_spec
from .storage import checkpoint
from .storage.restoring import restoring
from .storage.run_directory import CHECKPOINTS, RunDirectory
from .user_code import plugins
from .work import Work

HUB = "hf:"  # begins the name of a folder on the Hugging Face hub


def local_folder(path: str | Path) -> Path:
    """Return the folder that a path names. For hf:OWNER/NAME, this is the hub's own copy on this machine.

    The newest files are downloaded, or those of the commit, branch or tag of hf:OWNER/NAME@REVISION. Without a network,
    the files of the last download are used.

    Raises:
        RunError: huggingface_hub is not installed, or there is no such repository, here or on the hub.
    """
    name = str(path)
    if not name.startswith(HUB):
        return Path(path)
    if find_spec("huggingface_hub") is None:
        raise RunError(f"{name} needs huggingface_hub: pip install 'supple[hub]'")
    from huggingface_hub import snapshot_download

    owner, _, revision = name.removeprefix(HUB).partition("@")
    try:
        return Path(snapshot_download(owner, revision=revision or None))
    except Exception as error:  # of whichever HTTP library the hub's client uses
        raise RunError(f"{name} could not be loaded from the hub: {one_line(error)}") from error


def find_state(path: Path, step: int | None = None) -> tuple[int, Path]:
    """Return the step and the folder of the checkpoint of a run at a step, by default of the newest.

    Raises UsageError if there is no run, RunError if it has no such checkpoint.
    """
    folders = steps_of(path)
    step = max(folders) if step is None else step
    if step not in folders:
        raise RunError(f"{path} has no checkpoint at step {step}, only at {', '.join(map(str, folders))}")
    return step, folders[step]


def steps_of(path: Path) -> dict[int, Path]:
    """Return the folders of all checkpoints of a run by step, including kept and best states, the oldest first.

    Raises UsageError if there is no run, RunError if it has no checkpoint.
    """
    places = (path / CHECKPOINTS, path / KEPT, path / BEST)
    folders = {int(folder.name): folder for place in places for folder in checkpoint.folders_of(place)}
    if not folders:
        read_spec(path)  # raises if this is no run
        raise RunError(
            f"{path} has no checkpoint yet: `{plugins.command('resume', path)}` continues the run to its first one"
        )
    return dict(sorted(folders.items()))


def load_states(path: Path, folders: Mapping[int, Path], warn: Warn) -> Iterator[tuple[int, Work]]:
    """Yield the step and the work of a run for each of these checkpoints, with networks in evaluation mode.

    The same work is loaded with one state after another, in the order of `folders`, and its environments are closed
    after the last. Nothing is written. Networks that were trained on a GPU are loaded on the CPU if there is none here.

    Raises:
        UsageError: The loaded plug-ins are not those that the run was started with.
        RunError: The run or a checkpoint cannot be read.
    """
    spec = read_spec(path)
    spec.require_plugins(path, more=True)
    run = RunDirectory(path, spec.resolved.identity)
    anywhere: dict[str, Any] = {"device": "auto"} if getattr(spec.settings, "device", "cpu") == "cuda" else {}
    settings = replace(spec.settings, **anywhere)
    with flushing_denormals(settings.torch_threads), closing(build(spec.kind_row, settings, warn)) as work:
        loop = Loop(run, work, attach_hooks(work, spec.settings.hook, spec.start.step), 0, spec.end, warn)
        for step, folder in folders.items():
            tree = checkpoint.load(folder, run.identity)
            with restoring(folder.parent):
                loop.restore(tree)
            for learner in work.learners.values():
                learner.module.eval()
            yield step, work
