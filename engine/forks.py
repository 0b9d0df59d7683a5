"""Forks: arms that continue from the identical state of a trunk, and the steps at which they are forked."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from supple.registry.errors import UsageError

from .storage import checkpoint
from .storage.run_directory import CHECKPOINTS
from .work import Task

Variant = Mapping[str, Any]  # fields of the settings → values
NONE, FRESH = "none", "fresh"  # arms: without an intervention; the reference, a fresh agent for each task


class Forks:
    """The way in which the arms of a comparison are forked from their trunk.

    A kind of run whose arms begin elsewhere has its own subclass.
    """

    def shared_trunk(self, settings: Any) -> bool:
        """Return whether all variants of these settings share one trunk. Otherwise each has its own."""
        return False

    def by_hooks(self, settings: Any, variants: Sequence[Variant]) -> bool:
        """Return whether hooks decide where to fork if nothing else does. Otherwise `prepare` says it."""
        return True

    def prepare(self, settings: Any, variants: Sequence[Variant], fork: int) -> tuple[Any, Sequence[Variant], int]:
        """Return the settings of the comparison, its variants, and the fork step (0 for arms without a trunk).

        Raises UsageError if a setting cannot vary.
        """
        return settings, variants, fork

    def first_step(self, settings: Any, fork: int) -> int:
        """Return the step at which an arm with these settings will begin."""
        return fork

    def choose_start(self, settings: Any, trunk: Path, fork: int) -> tuple[Any, int, Path]:
        """Return the settings of an arm (without values such as "auto"), its first step, and the checkpoint's folder.

        The run in the folder `trunk` ends at step `fork`.
        """
        return settings, fork, checkpoint.folder_of(trunk / CHECKPOINTS, fork)


def fork_step_of(
    tasks: tuple[Task, ...], stride: int, fork_at: float | None = None, fork_at_task: int | None = None
) -> int:
    """Return the step of the fork; 0 means that there is no trunk and arms are trained from the beginning.

    Args:
        tasks: The tasks of the run.
        stride: Steps between two places at which it can be forked.
        fork_at: The fraction of the planned steps, in [0, 1), to whose nearest multiple of `stride` it is rounded.
        fork_at_task: Instead, the index of the task at whose beginning to fork.

    Raises:
        UsageError: There is no such step, or both are given.
    """
    total = tasks[-1].end
    if fork_at_task is not None:
        if fork_at is not None:
            raise UsageError("--fork-at and --fork-at-task both say where to fork: give only one of them")
        if not 0 < fork_at_task < len(tasks):
            within = f"{fork_at_task}: the run has only one task; fork within it instead, --fork-at 0.5"
            later = f"must be one of the later tasks, 1 to {len(tasks) - 1}, got {fork_at_task}"
            raise UsageError(f"--fork-at-task {later if len(tasks) > 1 else within}")
        return tasks[fork_at_task].start
    if fork_at is None or not 0 <= fork_at < 1:
        raise UsageError(f"--fork-at must lie in [0, 1), a fraction of the run, got {fork_at}")
    step = round(fork_at * total / stride) * stride
    if fork_at and not 0 < step < total:
        raise UsageError(f"--fork-at {fork_at} would fork at step {step} of {total}, with nothing to compare")
    return step


def stop_step_of(tasks: tuple[Task, ...], stride: int, share: float) -> int:
    """Return the step at which runs stop that are trained for a share of the planned steps, in (0, 1].

    Raises UsageError if runs with several tasks would meet no task switch: tuning without one would say little.
    """
    step = round(share * tasks[-1].end / stride) * stride
    if not 0 < step <= tasks[-1].end:
        raise UsageError(
            f"share {share:g} of {tasks[-1].end:,} steps is not possible: it must be above 0 and at most 1"
        )
    if len(tasks) > 1 and step <= tasks[0].end:
        raise UsageError(
            f"share {share:g} ends at step {step:,}, within the first task, but arms are tuned on runs with a task "
            f"switch: it must be more than {tasks[0].end / tasks[-1].end:.3g}"
        )
    return step
