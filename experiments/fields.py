"""Settings as a script or a file gives them: fields by name, whose values are checked against their types."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from ..registry import did_you_mean
from . import typed
from .errors import UsageError
from .kinds import Kind, Preset, presets, presets_of
from .settings import RunSettings

Fields = Mapping[str, Any]


def preset_of(kind: Kind, name: str | None) -> Preset | None:
    """Return the preset, or the benchmark, of a kind that has this name; None for none. Raises UsageError."""
    if name is None:
        if kind.benchmark:
            raise UsageError(f"which benchmark of {kind.name}? preset: {', '.join(presets_of(kind.name))}")
        return None
    found = presets.get(name)
    if found.kind != kind.name:
        raise UsageError(f"preset {name!r} is one for {found.kind}, not for {kind.name}")
    return found


def settings_with(kind: Kind, preset: Preset | None, fields: Fields) -> RunSettings:
    """Return the settings of a kind, or of its preset, in which these fields have other values. Raises UsageError."""
    own = {name: value_of(kind, name, value) for name, value in fields.items()}
    return kind.settings_class()(**{**(preset.settings if preset else {}), **own})


def value_of(kind: Kind, name: str, value: Any) -> Any:
    """Return the value of a setting as one of its type: lists for tuples, texts for paths. Raises UsageError."""
    made = kind.settings_class()
    if name not in made.__dataclass_fields__:
        raise UsageError(f"{kind.name} has no setting {name!r}{did_you_mean(name, made.__dataclass_fields__)}")
    try:
        return typed.fitted(as_json(value), get_type_hints(made)[name], name)
    except ValueError as error:
        raise UsageError(f"settings of {kind.name}: {error}") from None


def value_in_text(kind: Kind, name: str, text: str) -> Any:
    """Return the value of a setting that a text says: a number, a list or a text, as in TOML, quotes left out.

    Raises UsageError."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    return value_of(kind, name, value)


def as_text(value: Any) -> str:
    """Return the text that `value_in_text` reads as a value of JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def as_json(value: Any) -> Any:
    """Return a value as JSON would have it: a script may give lists for tuples, and paths."""
    if isinstance(value, Path):
        return str(value)
    return [as_json(item) for item in value] if isinstance(value, tuple | list | range) else value
