"""The points of a comparison: its arms in the variants of the settings, and the names of their folders."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from supple.engine.forks import FRESH, Variant
from supple.engine.kinds import Preset
from supple.engine.settings import RunSettings, Seeds
from supple.engine.storage import names
from supple.registry.errors import UsageError

from .arms import is_fresh

FIXED = ("hook", "seed", "seeds", "stack")  # settings that arms and seeds decide, so that they are no variants
Vary = Mapping[str, Sequence[Any]]  # name of a setting → its values; every arm is trained with each


class Point(NamedTuple):
    """An arm in one variant of the settings: what is trained once for each seed."""

    arm: str
    variant: Variant

    @property
    def label(self) -> str:
        """A text for the user, such as `learning_rate=0.001 · fire`, or `fire` if nothing varies."""
        variant = ", ".join(f"{name}={value}" for name, value in self.variant.items())
        return " · ".join(filter(None, (variant, self.arm)))

    @property
    def folder(self) -> str:
        """The folder inside that of the seed: `start=best/fire`, or `fire` if nothing varies."""
        return "/".join(filter(None, (name_variant(self.variant), names.slug(self.arm))))

    @property
    def key(self) -> str:
        """The name in tables of published numbers: that of the folder, without checksums."""
        return "/".join(filter(None, map(names.plain, (_text_of(self.variant), self.arm))))


def variant_text(variant: Mapping[str, Any]) -> str:
    """Return a variant of the settings as text, such as `learning rate 1e-05, epochs 3`; "" if nothing varies."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in variant.items())


def vary_of(preset: Preset | None, settings: RunSettings) -> Vary:
    """Return the settings that a preset varies, except those whose values the user changed."""
    if preset is None:
        return {}
    own = type(settings)(**preset.settings)
    return {name: values for name, values in preset.vary.items() if getattr(settings, name) == getattr(own, name)}


def make_points(arms: Sequence[str], vary: Vary | None = None) -> tuple[Point, ...]:
    """Return every arm with every combination of values.

    Args:
        arms: The texts of the arms.
        vary: The values to vary, by name of the setting.

    Raises:
        UsageError: An arm is given twice, or is the reference.
    """
    if len(set(arms)) < len(arms):
        raise UsageError(f"two arms would share a folder: {', '.join(arms)}")
    if any(map(is_fresh, arms)):
        raise UsageError("fresh is not an arm but the reference for the arms: use --reference fresh")
    vary = vary or {}
    variants = [dict(zip(vary, values, strict=True)) for values in product(*vary.values())]
    return tuple(Point(arm, variant) for variant in variants for arm in arms)


def add_reference(points: Sequence[Point], reference: str | None) -> tuple[Point, ...]:
    """Return points with the reference `fresh` in each of their variants, if it is asked for."""
    variants = remove_repeats(point.variant for point in points) if reference == FRESH else []
    return (*points, *(Point(FRESH, variant) for variant in variants))


def sort_points(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return points without repetitions: by variant, then by arm, each in the order in which they first occur."""
    arms, variants = dict.fromkeys(point.arm for point in points), remove_repeats(point.variant for point in points)
    places = {arm: place for place, arm in enumerate(arms)}
    order = sorted(remove_repeats(points), key=lambda point: (variants.index(point.variant), places[point.arm]))
    return tuple(order)


def remove_repeats(values: Iterable[Any]) -> list[Any]:
    """Return the values without repetitions, in order. They need not be hashable."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def name_variant(variant: Variant) -> str:
    """Return a folder name for a variant of the settings, such as `start=best`, or "" if nothing varies."""
    return names.slug(_text_of(variant)) if variant else ""


def _text_of(variant: Variant) -> str:
    return ",".join(f"{name}={value}" for name, value in variant.items())


def trunk_folder(variant: Variant) -> str:
    """Return the folder of the trunk of a variant, inside that of the seed."""
    return "/".join(filter(None, (name_variant(variant), names.TRUNK)))


def name_seeds(seeds: Seeds) -> str:
    """Return a folder name for the runs of one seed, or of a stack."""
    return names.slug("-".join(["seed" if len(seeds) == 1 else "seeds", *map(str, seeds)]))
