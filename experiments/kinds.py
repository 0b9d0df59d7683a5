"""The kinds of runs, by name: everything that depends on what kind a run is stands in its row.

A package that has kinds registers them in a module that its distribution names as an entry point of the group
`supple.kinds` (or `supple.agents`); so rows from other packages are found as our own are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from ..registry import Registry, UnknownName

if TYPE_CHECKING:
    from .fork import Forks
    from .report.kind import Report
    from .settings import RunSettings
    from .work import Work

GROUPS = ("supple.kinds", "supple.agents")  # of entry points


@dataclass(frozen=True)
class Kind:
    """One kind of run. What is given as "module:name" is imported when it is asked for, so that help needs no torch.

    name, about: as people type it, and what it is. settings: its dataclass, extended from RunSettings.
    build: settings → its Work; raises UsageError or ValueError for what cannot work.
    report: its `Report`. unit: what a step is.
    shared: whether the processes that torchrun starts can train one run together.
    fork_at, fork_at_task: where comparisons fork if nothing is said; neither: arms are trained from the beginning.
    arms: what comparisons compare if nothing is said.
    tuned_by: the measure of `search.score` by which arms are tuned if nothing is said.
    forking: how its arms part from their trunk, a class like `fork.Forks`.
    benchmark: whether its settings begin with a preset that is named right after it: `train vision permuted-mnist`.
    counted_seeds: whether `--seeds 5` used to mean five seeds in its comparisons.
    """

    name: str
    about: str
    settings: str
    build: str
    report: str
    unit: str = "updates"
    shared: bool = False
    fork_at: float | None = None
    fork_at_task: int | None = None
    arms: tuple[str, ...] = ("none",)
    tuned_by: str = ""
    forking: str = "supple.experiments.fork:Forks"
    benchmark: bool = False
    counted_seeds: bool = False

    def settings_class(self) -> "type[RunSettings]":
        found: type[RunSettings] = resolve_name(self.settings)
        return found

    def builder(self) -> "Callable[[Any], Work]":
        found: Callable[[Any], Work] = resolve_name(self.build)
        return found

    def forks(self) -> "Forks":
        found: type[Forks] = resolve_name(self.forking)
        return found()

    def reports(self) -> "Report":
        found: Report = resolve_name(self.report)
        return found


@dataclass(frozen=True)
class Preset:
    """The settings of a whole experiment, by name, and what `supple compare` compares in it.

    vary: name of a setting → the values that it takes, each with every arm. reference: one more arm, by which the
    others are measured (`fresh`). None: as the kind says.
    """

    name: str
    about: str
    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    arms: tuple[str, ...] | None = None
    fork_at: float | None = None
    reference: str | None = None
    seeds: tuple[int, ...] = (0,)


kinds: Registry[Kind] = Registry("kind of run", groups=GROUPS)
presets: Registry[Preset] = Registry("preset", groups=GROUPS)


def add(*rows: Kind | Preset) -> None:
    """Register rows under their names. Raises ValueError for a name that is taken."""
    for row in rows:
        if isinstance(row, Kind):
            kinds.register(row.name)(row)
        else:
            presets.register(row.name)(row)


def find_kind(name: str) -> Kind:
    """Return the kind of runs that has this name. Raises UnknownName."""
    try:
        return kinds.get(name)
    except UnknownName as error:
        raise UnknownName(f"{error}; a kind of a plug-in is known once that is named: --plugin FILE") from None


def all_kinds() -> dict[str, Kind]:
    """Return every kind of runs, by name, in the order of their registration."""
    return dict(kinds.entries)


def presets_of(kind: str | None = None) -> dict[str, Preset]:
    """Return the presets by name: all, or those of one kind of runs."""
    return {name: preset for name, preset in presets.entries.items() if kind in (None, preset.kind)}
