"""Forks: an arm that goes on from the identical state of a trunk."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import checkpoint
from .rundir import CHECKPOINTS, RunDirectory, identity_of

Variant = Mapping[str, Any]  # fields of the settings → values
NONE, FRESH = "none", "fresh"  # arms: without an intervention; the reference, which begins anew with every task


class Forks:
    """The way in which arms of a comparison part from their trunk.
    A kind of run whose arms begin elsewhere has one of its own."""

    def shared_trunk(self, settings: Any) -> bool:
        """Return whether all variants of these settings share one trunk; else each has its own."""
        return False

    def prepare(self, settings: Any, variants: Sequence[Variant], fork: int) -> tuple[Any, Sequence[Variant], int]:
        """Return the settings of the comparison, its variants one by one, and the step of the fork, 0 where arms are
        trained from the beginning.

        Raises UsageError for what cannot vary.
        """
        return settings, variants, fork

    def planned(self, settings: Any, fork: int) -> int:
        """Return the step at which an arm with these settings will begin."""
        return fork

    def beginning(self, settings: Any, trunk: RunDirectory, fork: int) -> tuple[Any, int, Path]:
        """Return where an arm begins in its trunk, which ends at the fork: its settings, with nothing left to be
        decided, the step, and the folder of the state."""
        return settings, fork, checkpoint.folder_of(trunk.checkpoints, fork)


def fork(trunk: RunDirectory, source: Path, target: Path, config: dict[str, Any]) -> None:
    """Make the run directory `target`, which begins at `source`, a checkpoint of the trunk.

    Everything of that state is taken over (weights, optimizer, memory, generators, statistics), by links to the
    trunk's files, so that a large memory costs nothing; the logs begin empty. config.json comes last: a folder that
    has one is a whole run, and is left alone. Raises CheckpointError if the trunk's checkpoint is missing or damaged.
    """
    if (target / "config.json").exists():
        return
    checkpoints = target / CHECKPOINTS
    shutil.rmtree(checkpoints, ignore_errors=True)  # what a process left that was killed here
    try:
        checkpoint.adopt(source, trunk.identity, checkpoints, identity_of(config), logs={})
        RunDirectory.create(target, config, CHECKPOINTS)
    except BaseException:
        shutil.rmtree(checkpoints, ignore_errors=True)
        raise
