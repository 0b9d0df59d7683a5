"""Settings from a script or a file: values by field name, which are checked against their types."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from ..registry import did_you_mean
from ..registry.errors import UsageError
from .kinds import Kind, Preset, presets, presets_of
from .settings import RunSettings
from .storage import schema

Fields = Mapping[str, Any]


def preset_of(kind: Kind, name: str | None) -> Preset | None:
    """Return the preset (or benchmark) of a kind by name, or None for None. Raises UsageError if there is none."""
    if name is None:
        if kind.benchmark:
            raise UsageError(f"{kind.name} needs a benchmark as its preset: {', '.join(presets_of(kind.name))}")
        return None
    found = presets.get(name)
    if found.kind != kind.name:
        raise UsageError(f"preset {name!r} is for {found.kind}, not for {kind.name}")
    return found


def settings_with(kind: Kind, preset: Preset | None, fields: Fields) -> RunSettings:
    """Return the settings of a kind, with the values of a preset and then of these fields. Raises UsageError."""
    own = {name: value_of(kind, name, value) for name, value in fields.items()}
    return kind.settings_class()(**{**(preset.settings if preset else {}), **own})


def value_of(kind: Kind, name: str, value: Any) -> Any:
    """Return the value of a setting converted to its type, such as a list to a tuple or a text to a path.

    Raises UsageError if there is no such setting or the value has the wrong type.
    """
    made = kind.settings_class()
    if name not in made.__dataclass_fields__:
        raise UsageError(f"{kind.name} has no setting {name!r}{did_you_mean(name, made.__dataclass_fields__)}")
    try:
        return schema.fitted(as_json(value), get_type_hints(made)[name], name)
    except ValueError as error:
        raise UsageError(f"settings of {kind.name}: {error}") from None


def value_in_text(kind: Kind, name: str, text: str) -> Any:
    """Return the value of a setting from a text: a number, a list or a text as in TOML, but without quotes.

    Raises UsageError if there is no such setting or the value has the wrong type.
    """
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    return value_of(kind, name, value)


def as_text(value: Any) -> str:
    """Return the text from which `value_in_text` reads a JSON value."""
    return value if isinstance(value, str) else json.dumps(value)


def as_json(value: Any) -> Any:
    """Return a value with paths as texts, and with tuples and ranges as lists."""
    if isinstance(value, Path):
        return str(value)
    return [as_json(item) for item in value] if isinstance(value, tuple | list | range) else value
