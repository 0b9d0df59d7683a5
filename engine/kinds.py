"""The kinds of runs, by name. Everything that depends on the kind of a run is in its row.

A package registers its kinds in a module that its distribution declares as an entry point of the group `supple.kinds`
(or `supple.agents`). Kinds of other packages are found in the same way as supple's own.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, get_type_hints

from supple.registry import Registry, UnknownName, did_you_mean, schema
from supple.registry.errors import UsageError

from .settings import RunSettings

if TYPE_CHECKING:
    from .forks import Forks
    from .work import Task, Work

Fields = Mapping[str, Any]  # settings → values
GROUPS = ("supple.kinds", "supple.agents")  # groups of entry points


@dataclass(frozen=True)
class Kind:
    """One kind of run. Texts "module:name" are imported on first use, so that help does not need PyTorch.

    Attributes:
        name: As typed on the command line.
        about: One line about it.
        settings: "module:name" of its dataclass, a subclass of `RunSettings`.
        build: "module:name" of a function from settings to a `Work`. It raises UsageError or ValueError for settings
            that cannot work.
        report: "module:name" of its `reports.studies.content.Report`.
        unit: What a step is.
        shared: Whether several processes started by torchrun can train one run together.
        fork_at, fork_at_task: Where comparisons fork whose hooks do not decide it (`default_fork`). If neither is set,
            their arms are trained from the beginning.
        arms: The arms of comparisons by default.
        measures: The measures by which its reports compare arms; the first leads them by default. () if the names
            depend on the data.
        tuned_by: The measure, for `search.score`, by which arms are tuned by default.
        forking: "module:name" of a class like `forks.Forks`, which says how arms are forked from their trunk.
        benchmark: Whether a preset must follow the kind, as in `train vision permuted-mnist`.
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
    measures: tuple[str, ...] = ()
    tuned_by: str = ""
    forking: str = "supple.engine.forks:Forks"
    benchmark: bool = False

    def settings_class(self) -> type[RunSettings]:
        return resolve_name(self.settings)

    def builder(self) -> "Callable[[RunSettings], Work[Task]]":
        return resolve_name(self.build)

    def forks(self) -> "Forks":
        return resolve_name(self.forking)()

    @property
    def leads(self) -> str:
        """The measure that leads its reports by default; "" for the first one of the data."""
        return self.measures[0] if self.measures else ""

    def require_measure(self, name: str) -> None:
        """Raise UsageError if its reports have no measure with this name, as far as that is known before the runs."""
        if name and self.measures and name not in self.measures:
            raise UsageError(
                f"--leads {name!r}: no report of {self.name} compares arms by it"
                f"{did_you_mean(name, self.measures)} (measures: {', '.join(map(repr, self.measures))})"
            )


@dataclass(frozen=True)
class Preset:
    """A named set of settings, and the comparison that `supple compare` makes with it.

    Attributes:
        name: As typed on the command line.
        about: One line about it.
        kind: Name of the kind of run.
        settings: Values of settings, by field.
        vary: Values of settings to vary, by field. Every arm is trained with every combination of them.
        arms: The arms; None for those of the kind.
        fork_at: Where arms are forked, as a fraction of the run; None for the default (`default_fork`).
        reference: An additional arm with which the others are compared (`fresh`), or None.
        seeds: The seeds of comparisons.
        leads: The measure that leads reports, declared before the runs; "" for that of the kind.
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
    leads: str = ""


def check_row(row: Kind | Preset) -> None:
    """Raise ValueError if a value has the wrong type, or the kind of a preset has no such setting."""
    for name, wanted in get_type_hints(type(row)).items():
        schema.convert(as_json(getattr(row, name)), wanted, name)
    if isinstance(row, Preset):
        kind = find_kind(row.kind)
        kind.require_measure(row.leads)
        for name, values in [*((name, [value]) for name, value in row.settings.items()), *row.vary.items()]:
            for value in values:
                value_of(kind, name, value)


kinds: Registry[Kind] = Registry("kind of run", groups=GROUPS)
presets: Registry[Preset] = Registry("preset", groups=GROUPS)


def add(*rows: Kind | Preset) -> None:
    """Register kinds and presets under their names. Raises ValueError if a name is taken."""
    for row in rows:
        registry: Registry[Any] = kinds if isinstance(row, Kind) else presets
        registry.register(row.name)(row)


def find_kind(name: str) -> Kind:
    """Return the kind of run with this name. Raises UnknownName, which suggests close names."""
    try:
        return kinds.get(name)
    except UnknownName as error:
        raise UnknownName(f"{error}; for a kind of a plug-in, add --plugin FILE") from None


def all_kinds() -> dict[str, Kind]:
    """Return all kinds of runs by name, in the order of their registration."""
    return dict(kinds.entries)


def presets_of(kind: str | None = None) -> dict[str, Preset]:
    """Return the presets by name: all, or those of one kind of run."""
    return {name: preset for name, preset in presets.entries.items() if kind in (None, preset.kind)}


def preset_of(kind: Kind, name: str | None) -> Preset | None:
    """Return the preset (or benchmark) of a kind by name, or None for None. Raises UsageError if there is none."""
    own = presets_of(kind.name)
    if name in own:
        return own[name]
    if name is None:
        if kind.benchmark:
            raise UsageError(f"{kind.name} needs a benchmark as its preset: {', '.join(own)}")
        return None
    if other := presets_of().get(name):
        raise UsageError(f"preset {name!r} is for {other.kind}, not for {kind.name}")
    known = f"presets of {kind.name}: {', '.join(own)}" if own else f"{kind.name} has no presets"
    raise UsageError(f"unknown preset {name!r}{did_you_mean(name, own)} ({known})")


def settings_with(kind: Kind, preset: Preset | None, fields: Fields) -> RunSettings:
    """Return the settings of a kind, with the values of a preset and then of these fields. Raises UsageError."""
    own = {name: value_of(kind, name, value) for name, value in fields.items()}
    return kind.settings_class()(**{**(preset.settings if preset else {}), **own})


def require_setting(kind: Kind, name: str) -> type[RunSettings]:
    """Return the settings class of a kind. Raises UsageError if it has no such setting."""
    made = kind.settings_class()
    if name not in made.__dataclass_fields__:
        raise UsageError(f"{kind.name} has no setting {name!r}{did_you_mean(name, made.__dataclass_fields__)}")
    return made


def value_of(kind: Kind, name: str, value: Any, read: Callable[..., Any] = schema.convert) -> Any:
    """Return the value of a setting converted to its type, such as a list to a tuple or a text to a path.

    read: `schema.read` if the value is a text, as in options: a number, words, or a list in brackets.
    Raises UsageError if there is no such setting or the value has the wrong type.
    """
    made = require_setting(kind, name)
    try:
        return read(as_json(value), get_type_hints(made, include_extras=True)[name], name)
    except ValueError as error:
        raise UsageError(f"settings of {kind.name}: {error}") from None


def as_text(value: Any) -> str:
    """Return the text from which `schema.read` reads a JSON value."""
    return value if isinstance(value, str) else json.dumps(value)


def as_json(value: Any) -> Any:
    """Return a value with paths as texts, NumPy's numbers as Python's, and with tuples and ranges as lists."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Real) and not isinstance(value, int | float):  # of NumPy
        return int(value) if isinstance(value, Integral) else float(value)
    return [as_json(item) for item in value] if isinstance(value, tuple | list | range) else value
