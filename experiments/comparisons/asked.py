"""Comparisons as they are asked for: a preset, and what differs from it."""

from collections.abc import Sequence

from supple.engine.kinds import Kind, Preset
from supple.engine.settings import RunSettings, Seeds

from .comparison import Comparison
from .grid import Point, add_reference


def choose_seeds(settings: RunSettings, asked: Seeds | None, preset: Preset | None) -> Seeds:
    """Return the seeds of a comparison: those asked for, else those of the settings, else those of the preset, or 0."""
    if asked is not None:
        return asked
    if getattr(settings, "seeds", ()) or settings.members != (0,):
        return settings.members
    return preset.seeds if preset else (0,)


def make_comparison(
    kind: Kind,
    preset: Preset | None,
    settings: RunSettings,
    seeds: Seeds,
    points: Sequence[Point],
    reference: str | None = None,
    fork_at: float | None = None,
    fork_at_task: int | None = None,
    leads: str | None = None,
    command: str = "",
) -> Comparison:
    """Return a comparison, with the reference and the fork of a preset where none are asked for.

    Args:
        kind: The kind of run.
        preset: The preset from which the settings come, or None.
        settings: The settings of all runs.
        seeds: The seeds.
        points: The arms in their variants, without a reference.
        reference: `fresh` for an additional arm with which the others are compared, `none` for no such arm, or None for
            that of the preset.
        fork_at: The fork as a fraction of the run, 0 for no trunk, or None for that of the preset or the default.
        fork_at_task: The task at whose beginning to fork, instead of `fork_at`.
        leads: The measure that leads reports, or None for that of the preset or the kind.
        command: The command line as typed.
    """
    if preset and fork_at is None and fork_at_task is None:
        fork_at = preset.fork_at
    if preset and reference is None:
        reference = preset.reference
    points = add_reference(points, reference)
    leads = leads or (preset.leads if preset else "") or kind.leads
    return Comparison(kind.name, settings, tuple(points), seeds, fork_at, fork_at_task, leads=leads, command=command)
