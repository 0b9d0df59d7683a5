"""Forks: arms that go on from the identical state of a trunk, and the steps at which they part."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import checkpoint
from .errors import UsageError
from .rundir import CHECKPOINTS, RunDirectory, identity_of
from .work import Task

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


def fork_step_of(
    tasks: tuple[Task, ...], stride: int, fork_at: float | None = None, fork_at_task: int | None = None
) -> int:
    """Return the step of the fork: where task `fork_at_task` begins, or, where that is None, `fork_at` in [0, 1) of the
    planned total, at a step at which runs can part: a multiple of `stride`. At 0 there is no trunk: arms are trained
    from the beginning. Raises UsageError."""
    total = tasks[-1].end
    if fork_at_task is not None:
        if fork_at is not None:
            raise UsageError("--fork-at and --fork-at-task both say where the arms part: give one of them")
        if len(tasks) == 1:
            raise UsageError("the run has one task only, and no switch to fork at: say where in it, --fork-at 0.5")
        if not 0 < fork_at_task < len(tasks):
            raise UsageError(
                f"--fork-at-task must be one of the later tasks, 1 to {len(tasks) - 1}, got {fork_at_task}"
            )
        return tasks[fork_at_task].start
    if fork_at is None or not 0 <= fork_at < 1:
        raise UsageError(f"--fork-at must lie in [0, 1), a fraction of the run, got {fork_at}")
    step = round(fork_at * total / stride) * stride
    if fork_at and not 0 < step < total:
        raise UsageError(f"--fork-at {fork_at} would fork at step {step} of {total}: nothing to compare")
    return step


def stop_step_of(tasks: tuple[Task, ...], stride: int, share: float) -> int:
    """Return the step at which runs stop that are trained for a share of the planned steps. Raises UsageError where no
    task ends before: what arms do without a switch says little of what they are for."""
    step = round(share * tasks[-1].end / stride) * stride
    if not 0 < step <= tasks[-1].end:
        raise UsageError(
            f"share {share:g} of {tasks[-1].end:,} steps is nothing to train: it lies above 0 and is 1 at most"
        )
    if len(tasks) > 1 and step <= tasks[0].end:
        raise UsageError(
            f"share {share:g} ends at step {step:,}, within the first task, and arms are tuned on runs that meet a "
            f"switch: it has to be more than {tasks[0].end / tasks[-1].end:.3g}"
        )
    return step


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
