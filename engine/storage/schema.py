"""Check values read from JSON against declared types. A wrong value is reported in one line."""

import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

LEVELS = 64  # of nested lists and objects; many more would exhaust the stack of recursive functions
NAMES = {bool: "true or false", int: "an integer", float: "a finite number", str: "a text", Path: "a path"}


def parse(text: str | bytes, unique: bool = False) -> Any:
    """Return the value of a JSON text. Raises ValueError if it is invalid or nested more than 64 levels deep.

    unique: Also raise ValueError if an object has a key twice, of which `json` would keep the last.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique if unique else None)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if too_deep(value):
        raise ValueError("nested too deeply")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is given twice")
    return found


def fitted(value: Any, wanted: Any, where: str) -> Any:
    """Return a JSON value converted to the type `wanted`: lists to tuples, texts to paths, objects to dataclasses.

    Args:
        value: The value, as `json.loads` returns it.
        wanted: Any, bool, int, float, str, None, Path, a literal, tuple, list or mapping, a union of these, or a
            dataclass or TypedDict with entries of such types. An integer is accepted as a float.
        where: Name of the value in error messages.

    Raises:
        ValueError: An entry has the wrong type; the message names the first one.
    """
    origin, of = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return value
    if origin in (Union, UnionType):
        for each in of:
            try:
                return fitted(value, each, where)
            except ValueError:
                continue
    elif origin is Literal:
        if isinstance(value, str) and value in of:
            return value
    elif isinstance(value, list) and origin in (tuple, list):
        kinds = [of[0]] * len(value) if origin is list or of[-1] is ... else of
        if len(kinds) == len(value):
            pairs = zip(value, kinds, strict=True)
            return origin(fitted(item, kind, f"{where}[{i}]") for i, (item, kind) in enumerate(pairs))
    elif isinstance(value, dict):
        if origin in (dict, Mapping):
            return {key: fitted(item, of[1], _inside(where, key)) for key, item in value.items()}
        if is_typeddict(wanted):
            return entries(value, get_type_hints(wanted), where, wanted.__required_keys__)
        if is_dataclass(wanted) and isinstance(wanted, type):
            return wanted(**entries(value, get_type_hints(wanted), where, _required(wanted)))
    elif wanted is Path and isinstance(value, str):
        return Path(value)
    elif wanted is float:
        if type(value) in (int, float) and abs(value) <= sys.float_info.max:
            return value
    elif type(value) is wanted:
        return value
    raise ValueError(f"{where} should be {_words(wanted)}, but is {shown(value)}")


def entries(
    value: Mapping[str, Any], types: Mapping[str, Any], where: str, required: Collection[str] = ()
) -> dict[str, Any]:
    """Return the entries of a JSON object, each converted to its type.

    With `where` "", error messages name an entry by its key only. Raises ValueError, which names the first entry that
    has the wrong type, is not in `types`, or is required and missing.
    """
    if missing := [key for key in types if key in required and key not in value]:
        raise ValueError(f"{_inside(where, missing[0])} is missing")
    if unknown := [key for key in value if key not in types]:
        raise ValueError(f"{_inside(where, unknown[0])} is unknown to this version of supple")
    return {key: fitted(item, types[key], _inside(where, key)) for key, item in value.items()}


def shown(value: Any) -> str:
    """Return a short text for a JSON value, for error messages."""
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]} …"


def too_deep(value: Any, levels: int = LEVELS) -> bool:
    """Return whether lists and objects are nested more than `levels` deep."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(too_deep(item, levels - 1) for item in inside)


def _required(wanted: Any) -> set[str]:
    return {each.name for each in fields(wanted) if each.default is MISSING and each.default_factory is MISSING}


def _inside(where: str, key: str) -> str:
    name = key if key.isidentifier() else shown(key)
    return f"{where}.{name}" if where else name


def _words(wanted: Any) -> str:
    """Return a description of a type for error messages."""
    origin, of = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return " or ".join(map(_words, of))
    if origin is Literal:
        return "one of " + ", ".join(of)
    if origin in (tuple, list):
        return f"a list, each item {_words(of[0])}" if origin is list or of[-1] is ... else f"a list of {len(of)} items"
    return "null" if wanted is NoneType else NAMES.get(wanted, "an object")
