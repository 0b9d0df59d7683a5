"""Extend a run beyond its planned number of steps."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from supple.interventions import parse_hook
from supple.registry.errors import UsageError

from .loop import Warn
from .machine.denormals import flushing_denormals
from .runs import attach_hooks, build, resolved
from .spec import read_spec, write_spec
from .storage.lock import PATIENCE, Lock


def extend(path: Path, steps: int, warn: Warn) -> None:
    """Set the length of a run to `steps` steps in total, so that `supple resume` trains the additional ones.

    Fractions in hooks keep their old meaning, and the user is told so. The run is not the same as one planned with this
    length from the beginning, because its old end has had its effects.

    Args:
        path: The run directory.
        steps: The new total number of steps.
        warn: Called with lines for the user.

    Raises:
        UsageError: The run cannot be extended; nothing was changed.
        RunError: Another process is training the run.
    """
    with Lock(path, PATIENCE):
        spec = read_spec(path)
        if spec.labels.arm or spec.start.step or spec.stop is not None:
            raise UsageError(
                f"{path} cannot be extended: it was exported, or is part of a comparison, whose runs all end together"
            )
        spec.require_plugins(path)
        settings = spec.settings.lengthen(steps)
        for hook in filter(None, map(parse_hook, settings.hook)):
            if hook.intervention.has("finish_task"):
                raise UsageError(f"{path} cannot be extended: {hook.text} has acted on the old end as a task's end")
        with flushing_denormals(settings.torch_threads), closing(build(spec.kind_row, settings, warn)) as work:
            attach_hooks(work, settings.hook)
            longer = resolved(spec, work)
        before = spec.resolved  # its plug-ins too: a mended one is recorded beside it when training begins
        record = replace(before, tasks=longer.resolved.tasks, data=longer.resolved.data, hooks=longer.resolved.hooks)
        write_spec(path, replace(longer, resolved=record))
        warn(f"{path} now ends at step {longer.end:,}; fractions in its hooks still refer to {before.planned:,} steps")
