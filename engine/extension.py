"""Extend a run beyond its planned number of steps."""

from dataclasses import replace
from pathlib import Path

from supple.interventions import parse_hook
from supple.registry.errors import UsageError

from .loop import Warn
from .machine.denormals import flushing_denormals
from .runs import attach_hooks, build
from .spec import read_spec, write_config
from .storage import signed_json
from .storage.lock import PATIENCE, Lock
from .storage.run_directory import RunDirectory


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
        run = RunDirectory.open(path)
        config, file = run.config, path / "config.json"
        if config["arm"] or config["start_step"] or config["stop_step"] is not None:
            raise UsageError(f"{path} cannot be extended: it is part of a comparison, whose runs all end together")
        spec = read_spec(config, file)
        settings = spec.settings.lengthen(steps)
        for hook in filter(None, map(parse_hook, settings.hook)):
            if hook.intervention.has("finish_task"):
                raise UsageError(f"{path} cannot be extended: {hook.text} has acted on the old end as a task's end")
        with flushing_denormals(settings.torch_threads):
            work = build(spec.kind_row, settings, warn)
            try:
                attach_hooks(work, spec.hooks)
                longer = write_config(replace(spec, settings=work.settings), work)
            finally:
                work.close()
        planned = config.get("planned_steps", config["total_steps"])
        longer.pop("plugins", None)  # a mended one is recorded beside the one before when training begins
        signed_json.write_json(file, {**config, **longer, "planned_steps": planned, "identity": run.identity})
        end = longer["total_steps"]
        warn(f"{path} now ends at step {end:,}; fractions in its hooks still refer to {planned:,} steps")
