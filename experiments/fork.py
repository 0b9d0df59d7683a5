"""Forks: an arm that goes on from the identical state of a trunk."""

import shutil
from pathlib import Path
from typing import Any

from . import checkpoint
from .rundir import RunDirectory, versions, write_json


def fork(trunk: RunDirectory, source: Path, target: Path, config: dict[str, Any]) -> None:
    """Make the run directory `target`, which begins at `source`, a checkpoint of the trunk.

    Everything of that state is taken over (weights, optimizer, memory, generators, statistics), by links to the
    trunk's files, so that a large memory costs nothing; the logs begin empty. The directory appears at once or
    not at all; an existing one is left alone.
    Raises CheckpointError if the trunk's checkpoint is missing or damaged.
    """
    if target.exists():
        return
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        arm = RunDirectory(temporary, config)
        checkpoint.adopt(source, trunk.identity, arm.checkpoints, arm.identity, logs={})
        write_json(temporary / "config.json", {**config, "versions": versions()})
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
