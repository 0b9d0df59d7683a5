"""How tyro reads and shows options: by `supple.registry.schema`, in groups, each option with one default."""

import re
from dataclasses import is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from supple.engine.settings import GROUPS, RunSettings, group_of
from supple.registry import schema

SAYS_DEFAULT = re.compile(r"\s*\(default: [^()]*(\([^()]*\))?[^()]*\)|; default: [^()]*(?=\))")  # of no value, in words
NOTHING = (None, (), "", tyro.MISSING, tyro.MISSING_NONPROP)  # of the last two tyro says that they are required
_being_read: set[Any] = set()


class SettingsGroup:
    """The settings of one group, which help shows in a box. Each group has a subclass with its fields."""

    fields: tuple[StructFieldSpec, ...] = ()


def read_options(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Return how tyro reads and shows a dataclass of options, or None if it is none of ours: a rule for its registry.

    It differs from tyro's own rule only in what help shows: settings come in boxes, one for each group, and an option
    without a value has no default but the one that its help line names, such as "(default: --epochs)".
    """
    if not isinstance(info.type, type) or info.type in _being_read:
        return None
    if issubclass(info.type, SettingsGroup):
        return StructConstructorSpec(instantiate=dict, fields=info.type.fields)
    if not is_dataclass(info.type):
        return None
    _being_read.add(info.type)
    try:
        spec = ConstructorRegistry.get_struct_spec(info)
    finally:
        _being_read.discard(info.type)
    if not isinstance(spec, StructConstructorSpec):
        return None
    spec = replace(spec, fields=tuple(_with_one_default(field) for field in spec.fields))
    return _in_groups(info.type, spec) if issubclass(info.type, RunSettings) else spec


def _reader_of(wanted: Any) -> PrimitiveConstructorSpec[Any] | None:
    """Return how tyro reads and shows a value of a type, or None for settings, and options given several times."""
    plain = get_args(wanted)[0] if get_origin(wanted) is Annotated else wanted
    if tyro.conf.UseAppendAction in get_args(wanted) or is_dataclass(plain) or plain in (str, Path, bool):
        return None
    several, words = schema.takes_several(wanted), _words_of(plain)
    return PrimitiveConstructorSpec(
        nargs="*" if several else 1,
        metavar="|".join(words) + (" …" if several else ""),
        instance_from_str=lambda given: schema.read(given, wanted, "its value"),
        is_instance=lambda value: True,
        str_from_instance=lambda value: list(map(str, value)) if isinstance(value, tuple) else [str(value)],
        choices=None if several or any(map(str.isupper, words)) else tuple(words),
    )


def _words_of(wanted: Any) -> list[str]:
    """Return the words and the types, in capitals, that help shows for a type."""
    if wanted is bool:
        return ["True", "False"]
    if wanted in (NoneType, ...):
        return []
    if get_origin(wanted) is Literal:
        return [str(choice) for choice in get_args(wanted)]
    options = get_args(wanted)[:1] if get_origin(wanted) is Annotated else get_args(wanted)
    return list(dict.fromkeys(word for each in options for word in _words_of(each))) or [wanted.__name__.upper()]


def _in_groups(settings: type[RunSettings], spec: StructConstructorSpec) -> StructConstructorSpec:
    """Return the specification of settings with a part for each group that they have."""
    groups: dict[str, list[StructFieldSpec]] = {group: [] for group in GROUPS}
    for field in spec.fields:
        groups.setdefault(group_of(settings, field.name), []).append(field)  # a plug-in may have groups of its own

    def instantiate(**parts: dict[str, Any]) -> Any:
        return spec.instantiate(**{name: value for part in parts.values() for name, value in part.items()})

    return StructConstructorSpec(instantiate, tuple(_part(group, found) for group, found in groups.items() if found))


def _part(group: str, fields: list[StructFieldSpec]) -> StructFieldSpec:
    """Return the field of a group. Its name is the title of its box; that without a title joins the command's own."""
    part: Any = type("SettingsGroup", (SettingsGroup,), {"fields": tuple(fields)})
    title = tyro.conf.arg(name="" if group == "run" else group, prefix_name=False, help="")
    titled: Any = Annotated[part, title, tyro.conf.OmitArgPrefixes]
    return StructFieldSpec(group, titled, tyro.MISSING_NONPROP)


def _with_one_default(field: StructFieldSpec) -> StructFieldSpec:
    """Return a field whose help names one default: its value or, if it has none, the one in its help line."""
    nothing, reader = field.default in NOTHING, _reader_of(field.type)
    of: Any = Annotated[field.type, reader] if reader else field.type
    silent: Any = Annotated[of, tyro.conf.arg(help_behavior_hint="")]
    text = field.helptext

    def shown() -> str | None:
        found = text() if callable(text) else text
        joined = found and " ".join(found.split())
        return joined if nothing or not joined else SAYS_DEFAULT.sub("", joined)

    repeatable = tyro.conf.UseAppendAction in get_args(field.type)
    return replace(field, type=silent if nothing and not repeatable else of, helptext=shown)
