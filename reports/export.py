"""Export a trained run for others: a folder without what only training needs, as the Hugging Face hub takes it."""

import shutil
from dataclasses import replace
from pathlib import Path

from supple.engine.loading import find_state
from supple.engine.runs import EXPORT
from supple.engine.spec import read_spec, write_spec
from supple.engine.storage import checkpoint, files, signed_json
from supple.engine.storage.learner_state import without_training
from supple.engine.storage.run_directory import CHECKPOINTS, LOGS

from . import compose, plots_of
from .pages import exports
from .pages.card import model_card


def export(path: Path, out: Path, step: int | None = None) -> int:
    """Write the networks of a run and their model card to a folder, which is a run too, and return their step.

    The folder has config.json, README.md with a figure, the logs up to the step, a checkpoint without optimizers and
    replay memories, and the folder model/ of kinds that have one. It appears completely or not at all. `load`,
    `Trained` and `supple report` read it as they read any run, but it cannot be trained further.

    Args:
        path: The run directory.
        out: The folder, which must be new or empty.
        step: The step of the checkpoint. By default, the newest.

    Raises:
        UsageError: There is no run, `out` has contents or lies inside a run, or a log is damaged.
        RunError: There is no such checkpoint, or another file of the run is damaged.
    """
    spec, (step, source) = read_spec(path), find_state(path, step)
    tree = checkpoint.load(source, spec.resolved.identity)
    signed_json.require_new(out)
    with files.atomic_folder(out) as folder:
        checkpoint.save(folder / CHECKPOINTS, step, without_training(tree), spec.resolved.identity)
        write_spec(folder, replace(spec, stop=step))  # so that it counts as ended
        for log, length in tree["logs"].items():
            with (path / LOGS[log]).open("rb") as file:
                (folder / LOGS[log]).write_bytes(file.read(length))
        if (path / EXPORT).is_dir():
            shutil.copytree(path / EXPORT, folder / EXPORT)
        content = compose(folder)
        plot = next(iter(plots_of(content)), None)
        if plot:
            plot.save(folder)
        exports.put(folder / "README.md", model_card(content, step, plot))
    return step
