"""Where second phases start: at a state of the first phase that its run kept."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ....experiments import checkpoint
from ....experiments.errors import RunError, UsageError
from ....experiments.rundir import RunDirectory
from ...loop import BEST, KEPT

if TYPE_CHECKING:
    from .settings import PretrainSettings


def from_a_start(settings: "PretrainSettings", trunk: RunDirectory, step: int) -> tuple["PretrainSettings", int, Path]:
    """The state of a trunk that `settings.start` names: the end of the first phase (`step`), one that was kept, or the
    best. The settings that come back name its update."""
    if settings.start == "best":
        folders = sorted(folder for folder in (trunk.path / BEST).glob("*") if folder.name.isdigit())
        if not folders:
            raise RunError(f"{trunk.path}: no best state was kept (--keep-best)")
        return replace(settings, start=str(int(folders[-1].name))), int(folders[-1].name), folders[-1]
    at = settings.first_end
    if at == step:
        return replace(settings, start=str(at)), at, checkpoint.folder_of(trunk.checkpoints, at)
    folder = checkpoint.folder_of(trunk.path / KEPT, at)
    if not folder.exists():
        raise UsageError(f"{trunk.path}: the state of update {at} was not kept (--keep-at {at})")
    return settings, at, folder
