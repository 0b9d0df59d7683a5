"""Check values against declared types, and convert them. A wrong value is reported in one line.

The values come from JSON and TOML files, and from calls such as `fire(steps=10)`. The types are annotations: those of
dataclasses, of TypedDicts and of the parameters of functions.
"""

import inspect
import json
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from .faults import summary
from .messages import brief
from .names import did_you_mean

LEVELS = 64  # of nested lists and objects; many more would exhaust the stack of recursive functions
LISTS = (list, tuple)
SHOWN = 40  # characters of a value in messages
NAMES = {bool: "true or false", int: "an integer", float: "a finite number", str: "a text", Path: "a path"}
NAMES |= dict.fromkeys(LISTS, "a list")


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError if it is invalid or nested more than 64 levels deep."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if is_too_deep(value):
        raise ValueError("nested too deeply")
    return value


def is_too_deep(value: Any, levels: int = LEVELS) -> bool:
    """Return whether lists and objects are nested more than `levels` deep."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(is_too_deep(item, levels - 1) for item in inside)


def convert(value: Any, wanted: Any, where: str, finite: bool = True) -> Any:
    """Return a value converted to the type `wanted`: lists to tuples, texts to paths, objects to dataclasses.

    Args:
        value: The value, as `json.loads` returns it.
        wanted: Any, bool, int, float, str, None, Path, a literal, tuple, list or mapping, a union of these, or a
            dataclass or TypedDict with entries of such types. An integer is accepted as a float, but a bool never as a
            number.
        where: Name of the value in error messages.
        finite: Whether infinity and NaN, as the value or in a list, are refused.

    Raises:
        ValueError: An entry has the wrong type; the message names the first one.
    """
    origin, of = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return value
    if origin in (Union, UnionType):
        for option in of:
            try:
                return convert(value, option, where, finite)
            except ValueError:
                continue
    elif origin is Literal:
        if any(type(value) is type(choice) and value == choice for choice in of):
            return value
    elif isinstance(value, LISTS) and origin in LISTS:
        kinds = [of[0]] * len(value) if origin is list or of[-1] is ... else of
        if len(kinds) == len(value):
            pairs = zip(value, kinds, strict=True)
            return origin(convert(item, kind, f"{where}[{i}]", finite) for i, (item, kind) in enumerate(pairs))
    elif isinstance(value, dict):
        if origin in (dict, Mapping):
            return {key: convert(item, of[1], _inside(where, key)) for key, item in value.items()}
        if is_typeddict(wanted):
            return convert_entries(value, get_type_hints(wanted), where, wanted.__required_keys__)
        if is_dataclass(wanted) and isinstance(wanted, type):
            return wanted(**convert_entries(value, get_type_hints(wanted), where, _required(wanted)))
    elif wanted is Path and isinstance(value, str):
        return Path(value)
    elif isinstance(value, bool):
        if wanted is bool:
            return value
    elif wanted is float:
        if isinstance(value, int | float) and (abs(value) <= sys.float_info.max or not finite):
            return value
    elif isinstance(wanted, type) and not is_typeddict(wanted) and isinstance(value, wanted):
        return value
    raise ValueError(_describe_mismatch(value, wanted, where))


def convert_entries(
    value: Mapping[str, Any], types: Mapping[str, Any], where: str, required: Collection[str] = ()
) -> dict[str, Any]:
    """Return the entries of an object, each converted to its type.

    Args:
        value: The object, as `json.loads` returns it.
        types: The types by key.
        where: Name of the object in error messages; with "", they name an entry by its key only.
        required: Keys that may not be missing.

    Raises:
        ValueError: An entry has the wrong type, is not in `types`, or is required and missing; the message names the
            first one.
    """
    if missing := [key for key in types if key in required and key not in value]:
        raise ValueError(f"{_inside(where, missing[0])} is missing")
    if unknown := [key for key in value if key not in types]:
        raise ValueError(f"{_inside(where, unknown[0])} is unknown to this version of supple")
    return {key: convert(item, types[key], _inside(where, key)) for key, item in value.items()}


def bind(factory: Callable[..., Any], params: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check keyword parameters against a factory's signature, and return them ready for the call.

    `factory(**bind(factory, params, "fire"))` raises, if at all, one line that names the parameter. Values are checked
    against annotations made of int, float, bool, str, None, Literal, unions, tuples and lists. The factory checks other
    annotations, and which numbers are possible.

    Args:
        factory: The function or class.
        params: The parameters by name.
        where: The name of the factory in messages, usually its registered name.

    Raises:
        ValueError: A parameter is unknown, a value has the wrong type, or a required parameter is missing.
    """
    parameters = inspect.signature(factory, eval_str=True).parameters.values()
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    bound = dict(params)
    for name, value in params.items():
        if name in named:
            wanted = named[name].annotation
            if _is_plain(wanted):
                try:
                    bound[name] = convert(value, wanted, name, finite=False)
                except ValueError:
                    raise ValueError(_describe_mismatch(value, wanted, f"{where}: {name}", null="none")) from None
        elif not takes_any:
            listed = f"parameters: {', '.join(named)}" if named else "it takes no parameters"
            raise ValueError(f"{where} has no parameter {brief(name)!r}{did_you_mean(name, named)} ({listed})")
    missing = [p.name for p in named.values() if p.default is p.empty and p.name not in params]
    if missing:
        raise ValueError(f"{where} needs a value for {', '.join(map(repr, missing))}")
    return bound


def _is_plain(wanted: Any) -> bool:
    """Return whether an annotation is made of types that a call in a text can give."""
    if get_origin(wanted) in (Union, UnionType, *LISTS):
        return all(_is_plain(part) for part in get_args(wanted) if part is not ...)
    return get_origin(wanted) is Literal or wanted in (bool, int, float, str, NoneType, *LISTS)


def _required(wanted: Any) -> set[str]:
    return {f.name for f in fields(wanted) if f.default is MISSING and f.default_factory is MISSING}


def _inside(where: str, key: str) -> str:
    name = key if key.isidentifier() else describe_value(key)
    return f"{where}.{name}" if where else name


def _describe_mismatch(value: Any, wanted: Any, where: str, null: str = "null") -> str:
    """Return one line about a value of the wrong type. `null` is the word for None."""
    words = [choice for choice in _choices(wanted) if isinstance(choice, str)]
    hint = did_you_mean(value, words) if isinstance(value, str) else ""
    return f"{where} should be {_describe_type(wanted, null)}, but is {describe_value(value, null)}{hint}"


def describe_value(value: Any, null: str = "null") -> str:
    """Return a short text for a value, for error messages: as in JSON, with the word `null` for None."""
    if value is None:
        return null
    if isinstance(value, LISTS) and value and not any(isinstance(item, (*LISTS, dict)) for item in value):
        text = ", ".join(describe_value(item, null) for item in value[:SHOWN])
        if len(text) <= SHOWN:
            return f"[{text}]"
    if isinstance(value, (*LISTS, dict)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if not isinstance(value, bool | int | float | str):
        return summary(value)
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"


def _describe_type(wanted: Any, null: str) -> str:
    origin, of = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        lists_last = sorted(
            of, key=lambda option: get_origin(option) in LISTS
        )  # what is said of items comes at the end
        return " or ".join(_describe_type(option, null) for option in lists_last)
    if origin is Literal:
        return "one of " + ", ".join(map(str, of))
    if origin in LISTS:
        whole = origin is list or of[-1] is ...
        return f"a list, each item {_describe_type(of[0], null)}" if whole else f"a list of {len(of)} items"
    return null if wanted is NoneType else NAMES.get(wanted, "an object")


def _choices(wanted: Any) -> tuple[Any, ...]:
    """Return the literals that a type admits, including those in a union."""
    if get_origin(wanted) is Literal:
        return get_args(wanted)
    return tuple(choice for option in get_args(wanted) for choice in _choices(option))
