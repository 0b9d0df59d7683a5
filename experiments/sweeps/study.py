"""Studies: what `supple compare`, `supple.compare` and sweeps ask for, and the comparisons that follow from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from supple.engine.kinds import Kind, Preset, find_kind, preset_of, presets_of, settings_with, value_of
from supple.engine.settings import RunSettings, Seeds
from supple.engine.spec import to_json
from supple.engine.storage import names
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.grid import Point, add_reference, make_points, vary_of

from .search import Search
from .space import Space, Values
from .templates import fill, holes
from .tuning import Comparisons, Score, tune

Reference = Literal["fresh", "none"]
PRESET = "preset"  # the name in a point that is not a setting
EXTENDED = ("name", "arms", "seeds", "leads", "space", "published")  # the parts that may change once runs have started


@dataclass(frozen=True)
class Published:
    """Published numbers to compare the results of a study with.

    Attributes:
        source: Where they were published.
        measure: What the numbers measure.
        rows: The numbers, by `Point.key`, such as `activation=relu/none`, or `none` if the study varies nothing.
    """

    source: str
    measure: str
    rows: Mapping[str, float]


@dataclass(frozen=True)
class Study:
    """Runs of one kind to compare: a comparison, or one entry of a sweep.

    Attributes:
        name: Name of its folder in a sweep.
        kind: The kind of run.
        preset: The preset whose settings the runs start from, or None.
        settings: Values of settings for all runs. Texts in them, and arms, may contain `{names}` from the points.
        arms, seeds, reference, fork_at, fork_at_task, leads: As in `supple.compare`. What is None, or no arms, is that
            of the preset, or else of the kind.
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
    reference: Reference | None = None
    fork_at: float | None = None
    fork_at_task: int | None = None
    leads: str | None = None
    space: Space = field(default_factory=Space)
    search: Search | None = None
    published: Published | None = None

    @property
    def base(self) -> dict[str, Any]:
        """The part that must not change once runs have started, as JSON values. The rest can be extended."""
        own = {name: value for name, value in to_json(self).items() if name not in EXTENDED}
        if search := own["search"]:
            own["search"] = {name: value for name, value in search.items() if name != "points"}
        return own

    def comparisons(self, score: Score) -> Comparisons:
        """Return the comparisons that the study asks for by folder, each with the tuning that it serves, if any.

        If arms are tuned, the comparison with the results is included once `score` knows all points.

        Raises:
            UsageError: The study is invalid.
        """
        by_preset: dict[str | None, list[Values]] = {}
        for values in self.space.points():
            by_preset.setdefault(values.get(PRESET, self.preset), []).append(values)
        varied = any(PRESET in values for points in by_preset.values() for values in points)
        comparisons: Comparisons = {}
        for preset, points in by_preset.items():
            folder = "/".join([self.name, *([names.slug(str(preset))] if varied else [])])
            comparison = self._compare(preset, points)
            comparisons |= tune(self.search, folder, comparison, score) if self.search else {folder: (comparison, None)}
        return comparisons

    def comparison(self, command: str) -> Comparison:
        """Return the comparison of a study that tunes no arms and has one preset, with the command line as typed.

        Raises:
            UsageError: The study is invalid.
        """
        return replace(self._compare(self.preset, self.space.points()), command=command)

    def _compare(self, name: str | None, points: Sequence[Values]) -> Comparison:
        """Return the comparison of these points with the preset `name`. Names of the search stay in braces."""
        kind = find_kind(self.kind)
        preset = None if self._is_benchmark(kind, name) else preset_of(kind, name)
        settings = settings_with(kind, preset, {k: value for k, value in self.settings.items() if not holes(value)})
        arms = self.arms or (preset.arms if preset else None) or kind.arms
        varied = {key for values in points for key in values}
        vary = {key: values for key, values in vary_of(preset, settings).items() if key not in varied}
        texts = {key: value for key, value in self.settings.items() if holes(value)}
        in_texts = {hole for text in (*arms, *texts.values()) for hole in holes(text)}
        searched = {key: f"{{{key}}}" for key in (self.search.values if self.search else ())}  # the search fills these
        filled: list[Point] = []
        own_points = make_points(arms, vary)
        for values in points:
            own_arms = [fill(point.arm, {**searched, **values}) for point in own_points]
            fields = {key: value for key, value in values.items() if key not in in_texts and key != PRESET}
            fields |= {key: fill(text, values) for key, text in texts.items()}
            variant = {key: value_of(kind, key, value) for key, value in fields.items()}
            filled += [Point(arm, {**p.variant, **variant}) for arm, p in zip(own_arms, own_points, strict=True)]
        first, *others = [point.variant for point in filled]
        in_all = {key: value for key, value in first.items() if all(key in variant for variant in others)}
        # settings without a value need one for the plan, such as the environment; every point has its own
        settings = replace(settings, **{key: x for key, x in in_all.items() if getattr(settings, key) is None})
        fork_at = self.fork_at
        if fork_at is None and self.search:
            fork_at = 0.0  # arms that are tuned are not forked
        elif fork_at is None and self.fork_at_task is None and preset:
            fork_at = preset.fork_at
        return Comparison(
            kind.name,
            settings,
            add_reference(filled, preset.reference if preset and self.reference is None else self.reference),
            self._choose_seeds(settings, preset),
            fork_at,
            self.fork_at_task,
            leads=self.leads or (preset.leads if preset else "") or kind.leads,
        )

    def _choose_seeds(self, settings: RunSettings, preset: Preset | None) -> Seeds:
        """Return the seeds asked for, else those of the settings, else those of the preset, or 0."""
        if self.seeds is not None:
            return self.seeds
        if getattr(settings, "seeds", ()) or settings.members != (0,):
            return settings.members
        return preset.seeds if preset else (0,)

    def _is_benchmark(self, kind: Kind, preset: str | None) -> bool:
        """Return whether the settings have all that every benchmark of the kind sets, so that none has to be named."""
        if preset is not None or not kind.benchmark:
            return False
        return set.intersection(*(set(each.settings) for each in presets_of(kind.name).values())) <= set(self.settings)
