"""Studies: the entries of a sweep, and the runs that each asks for."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...engine.kinds import Kind, Preset, as_json, find_kind, preset_of, settings_with, value_of
from ...engine.loop import Warn
from ...engine.settings import RunSettings, Seeds
from ...engine.storage import names
from ...registry import did_you_mean
from ...registry.errors import UsageError
from ..comparisons.comparison import Comparison, Point, folder_of_variant, plan, points_of, vary_of
from .search import Search
from .space import Space, Values
from .templates import fill, holes
from .tuning import Score, Tuned, tuned

PRESET = "preset"  # the name in a point that is not a setting


@dataclass(frozen=True)
class Published:
    """Published numbers to compare the results of a study with.

    Attributes:
        source: Where they were published.
        measure: What the numbers measure.
        rows: The numbers, by the folder of the run inside that of its seed, such as `activation=relu/none`, or `none`
            if the study varies nothing.
    """

    source: str
    measure: str
    rows: Mapping[str, float]


@dataclass(frozen=True)
class Study:
    """One entry of a sweep: runs of one kind to compare.

    Attributes:
        name: Name of its folder.
        kind: The kind of run.
        preset: The preset whose settings the runs start from, or None.
        settings: Values of settings for all runs. Texts in them, and arms, may contain `{names}` from the points.
        arms, seeds, reference, fork_at, fork_at_task: As in `supple.experiments.compare`.
        space: The values to vary. A name in it is a setting, a `{name}` or `preset`.
        search: How the arms are tuned before they are trained with their best values; None for no tuning.
        published: Published numbers to show beside the results.
    """

    name: str
    kind: str
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    arms: tuple[str, ...] = ()
    seeds: Seeds | None = None
    reference: str | None = None
    fork_at: float | None = None
    fork_at_task: int | None = None
    space: Space = field(default_factory=Space)
    search: Search | None = None
    published: Published | None = None

    @property
    def base(self) -> dict[str, Any]:
        """The part that must not change once runs have started, as JSON values. The rest can be extended."""
        settings = {name: as_json(value) for name, value in self.settings.items()}
        search = json.loads(json.dumps(asdict(self.search))) if self.search else {}
        return {
            "kind": self.kind, "preset": self.preset, "settings": settings, "reference": self.reference,
            "fork_at": self.fork_at, "fork_at_task": self.fork_at_task,
            "search": {name: value for name, value in search.items() if name != "points"} or None,
        }  # fmt: skip

    def asked(self, score: Score) -> "dict[str, Asked]":
        """Return the comparisons that the study asks for, by folder. Raises UsageError if it is invalid.

        If arms are tuned, the comparison with the results is included once `score` knows all points.
        """
        by_preset: dict[str | None, list[Values]] = {}
        for point in self.space.points():
            by_preset.setdefault(point.get(PRESET, self.preset), []).append(point)
        varied = any(PRESET in point for points in by_preset.values() for point in points)
        found: dict[str, Asked] = {}
        folders = {preset: names.slug(str(preset)) for preset in by_preset} if varied else {}
        if len(set(folders.values())) < len(folders):
            raise UsageError(f"two presets would share a folder: {', '.join(map(str, folders))}")
        for preset, points in by_preset.items():
            if varied:
                names.require(folders[preset], f"preset {preset}", folders.values())
            folder = "/".join([self.name, *([folders[preset]] if varied else [])])
            asked = self._asked(preset, points)
            found |= tuned(self.search, folder, asked, score) if self.search else {folder: asked}
        return found

    def _asked(self, preset: str | None, points: Sequence[Values]) -> "Asked":
        kind = find_kind(self.kind)
        given = preset_of(kind, preset)
        settings = settings_with(kind, given, {k: value for k, value in self.settings.items() if not holes(value)})
        stacked = hasattr(settings, "seeds")
        if self.seeds is not None and stacked:
            settings = replace(settings, **dict[str, Any](seeds=self.seeds))
        seeds = settings.members if stacked else self.seeds or (given.seeds if given else (0,))
        arms = self.arms or (given.arms if given else None) or kind.arms
        pointed = {name for point in points for name in point}
        vary = {name: values for name, values in vary_of(given, settings).items() if name not in pointed}
        own = points_of(arms, vary)
        texts = {name: value for name, value in self.settings.items() if holes(value)}
        in_texts = {hole for text in (*arms, *texts.values()) for hole in holes(text)}
        left = {name: f"{{{name}}}" for name in (self.search.values if self.search else ())}  # the search fills these
        filled: list[Point] = []
        for point in points:
            fields = {name: value for name, value in point.items() if name not in in_texts and name != PRESET}
            _require_settings(kind, fields)
            fields |= {name: fill(text, point) for name, text in texts.items()}
            typed = {name: value_of(kind, name, value) for name, value in fields.items()}
            filled += [(fill(arm, {**left, **point}), {**variant, **typed}) for arm, variant in own]
        return Asked(self, kind, given, settings, seeds, filled)


def _require_settings(kind: Kind, names: Iterable[str]) -> None:
    """Raise UsageError for a name that is not a setting that can vary."""
    known = kind.settings_class().__dataclass_fields__.keys() - {"hook", "seed", "seeds"}
    if unknown := next((name for name in names if name not in known), None):
        raise UsageError(
            f"{unknown}: {kind.name} has no setting with this name{did_you_mean(unknown, known)}, and no arm or "
            f"setting has {{{unknown}}} in its text"
        )


@dataclass(frozen=True)
class Asked:
    """A comparison that a study asks for, with one of its presets if these vary."""

    study: Study
    kind: Kind
    preset: Preset | None
    settings: RunSettings
    seeds: Seeds
    points: Sequence[Point]
    stop_at: float | None = None  # a share of the planned steps
    tuned: Tuned | None = None

    def within(self, begun: Comparison) -> bool:
        """Return whether a comparison that was started for this study already has all seeds and points."""
        known = {(arm, folder_of_variant(variant)) for arm, variant in begun.points}
        asked = {(arm, folder_of_variant(variant)) for arm, variant in self.points}
        return asked <= known and set(self.seeds) <= set(begun.seeds)

    @property
    def reference(self) -> str | None:
        """The arm with which the others are compared; None while arms are tuned."""
        if self.stop_at is not None:
            return None
        return self.study.reference or (self.preset.reference if self.preset else None)

    def plan(self, command: str, warn: Warn, begun: Comparison | None = None) -> Comparison:
        """Return the comparison, or an extension of `begun`. Raises UsageError if it is invalid."""
        comparison = plan(
            self.kind, self.preset, self.settings, self.seeds, self.points,
            reference=self.reference,
            fork_at=0.0 if self.study.search else self.study.fork_at, fork_at_task=self.study.fork_at_task,
            command=command, stop_at=self.stop_at, begun=begun.fork_step if begun else None,
            warn=warn,
        )  # fmt: skip
        return replace(comparison, note=comparison.note and f"[{self.study.name}] {comparison.note}")
