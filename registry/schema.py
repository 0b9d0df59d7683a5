"""Read values by declared types: from texts, Python and files. A wrong value is reported in one line.

The values come from options, `--vary`, JSON and TOML files, Python, and calls such as `fire(steps=10)`. `convert` reads
them all. The types are annotations: those of dataclasses, of TypedDicts and of the parameters of functions. They may
say which numbers are possible, as in `rate: Positive[float] | None = None`, which `beyond` checks.
"""

import inspect
import json
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from .calls import Parser, scalar_of
from .messages import summary
from .names import did_you_mean

LISTS = (list, tuple)
UNIONS = (Union, UnionType)
SHOWN = 40  # characters of a value in messages
LARGEST = 2**53  # readers of JSON represent every integer up to this exactly
NAMES = {bool: "true or false", int: "an integer", float: "a finite number", str: "a text", Path: "a path"}
NAMES |= dict.fromkeys(LISTS, "a list")
T = TypeVar("T")


class Text(str):
    """A text as typed, which stands for a number, true, false or none where its type is none of texts."""

    __slots__ = ()


class Limit(NamedTuple):
    """A bound of the values of a type, with the words for what they must be."""

    words: str
    holds: Callable[[Any], bool]


Positive = Annotated[T, Limit("must be a positive number", lambda x: x > 0)]
NotNegative = Annotated[T, Limit("must be 0 or more", lambda x: x >= 0)]
Share = Annotated[float, Limit("must lie in [0, 1]", lambda x: 0 <= x <= 1)]
BelowOne = Annotated[float, Limit("must lie in [0, 1)", lambda x: 0 <= x < 1)]
PositiveShare = Annotated[float, Limit("must lie in (0, 1]", lambda x: 0 < x <= 1)]
Widths = Annotated[tuple[Positive[int], ...], Limit("must be one width or more", bool)]


def most(largest: int) -> Limit:
    """Return the limit of numbers that are `largest` at most."""
    return Limit(f"must be {largest:,} at most", lambda x: x <= largest)


def beyond(value: Any, wanted: Any) -> Iterator[str]:
    """Yield what a value of the type `wanted`, or an item of it, must be and is not: "must lie in [0, 1], got 2"."""
    origin, of = get_origin(wanted), get_args(wanted)
    is_number = isinstance(value, int | float)
    if origin is Annotated:
        applies = is_number or (isinstance(value, tuple) and get_origin(of[0]) is tuple)
        own = (mark for mark in of if isinstance(mark, Limit) and applies and not mark.holds(value))
        yield from list(beyond(value, of[0])) or (f"{mark.words}, got {value}" for mark in own)
    elif origin in UNIONS:
        yield from dict.fromkeys(problem for option in of for problem in beyond(value, option))
    elif origin is tuple and isinstance(value, tuple):
        for item, kind in zip(value, of[:1] * len(value) if ... in of else of, strict=False):
            yield from beyond(item, kind)
    elif is_number and not isfinite(value):
        yield f"must be a finite number, got {value}"
    elif is_number and abs(value) > LARGEST and isinstance(value, int):
        yield f"must be {LARGEST:,} at most, got {value}"


def read(text: str | Sequence[str], wanted: Any, where: str) -> Any:
    """Return the value of the type `wanted` that a text denotes, or the words of an option.

    The items of a list are words, as on the command line, or stand in brackets: `64 64`, `[64,64]`. A text in quotes is
    what is between them.

    Raises:
        ValueError: As `convert` does.
    """
    words = [text] if isinstance(text, str) else text
    joined = " ".join(words)
    if takes_several(wanted) and not (joined.lower() == "none" and NoneType in get_args(wanted)):
        try:
            if joined.startswith("["):
                parser = Parser(joined)
                items: Any = parser.to_the_end(parser.value())
            else:
                items = list(map(Text, shlex.split(text) if isinstance(text, str) else words))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        return convert(items, wanted, where)
    quoted = isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return convert(Text(joined[1:-1] if quoted else joined), wanted, where)


def takes_several(wanted: Any) -> bool:
    """Return whether values of a type are lists."""
    return get_origin(wanted) in LISTS or (
        get_origin(wanted) in (Annotated, *UNIONS) and any(map(takes_several, get_args(wanted)))
    )


def convert(value: Any, wanted: Any, where: str, finite: bool = True) -> Any:
    """Return a value converted to the type `wanted`: lists to tuples, texts to paths, objects to dataclasses.

    Args:
        value: The value, as `json.loads` returns it, or a `Text`.
        wanted: Any, bool, int, float, str, None, Path, a literal, tuple, list or mapping, a union of these, or a
            dataclass or TypedDict with entries of such types. An integer is accepted as a float and a whole float such
            as 1e6 as an integer, but a bool never as a number. An annotated type may name a function that reads its
            values first.
        where: Name of the value in error messages.
        finite: Whether infinity and NaN, as the value or in a list, are refused.

    Raises:
        ValueError: An entry has the wrong type; the message names the first one.
    """
    origin, of = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return value
    if origin is Annotated:
        for reader in filter(inspect.isfunction, of[1:]):
            try:
                value = reader(value)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
        return convert(value, of[0], where, finite)
    if origin in UNIONS:
        for option in sorted(of, key=lambda option: option is not type(value)):
            try:
                return convert(value, option, where, finite)
            except ValueError:
                continue
    elif origin is Literal:
        for choice in of:
            if value == choice and isinstance(value, type(choice)):
                return choice
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
            required = {f.name for f in fields(wanted) if f.default is MISSING and f.default_factory is MISSING}
            return wanted(**convert_entries(value, get_type_hints(wanted), where, required))
    elif wanted is Path and isinstance(value, str):
        return Path(value)
    elif wanted is str and isinstance(value, str):
        return str(value)
    elif isinstance(value, Text) and not isinstance(denoted := scalar_of(value), str):
        return convert(float(value) if wanted is float and type(denoted) is int else denoted, wanted, where, finite)
    elif isinstance(value, bool):
        if wanted is bool:
            return value
    elif wanted is float:
        if isinstance(value, int | float) and (abs(value) <= sys.float_info.max or not finite):
            return value
    elif wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)
    elif isinstance(wanted, type) and not is_typeddict(wanted) and isinstance(value, wanted):
        return value
    words = [choice for choice in choices(wanted) if isinstance(choice, str)]
    hint = did_you_mean(value, words) if isinstance(value, str) else ""
    raise ValueError(f"{where} should be {_describe_type(wanted)}, but is {describe_value(value)}{hint}")


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
                bound[name] = convert(value, wanted, f"{where}: {name}", finite=False)
        elif not takes_any:
            listed = f"parameters: {', '.join(named)}" if named else "it takes no parameters"
            raise ValueError(f"{where} has no parameter {name!r}{did_you_mean(name, named)} ({listed})")
    missing = [p.name for p in named.values() if p.default is p.empty and p.name not in params]
    if missing:
        raise ValueError(f"{where} needs a value for {', '.join(map(repr, missing))}")
    return bound


def _is_plain(wanted: Any) -> bool:
    """Return whether an annotation is made of types that a call in a text can give."""
    if get_origin(wanted) in (Union, UnionType, *LISTS):
        return all(_is_plain(part) for part in get_args(wanted) if part is not ...)
    return get_origin(wanted) is Literal or wanted in (bool, int, float, str, NoneType, *LISTS)


def _inside(where: str, key: str) -> str:
    name = key if key.isidentifier() else describe_value(key)
    return f"{where}.{name}" if where else name


def describe_value(value: Any) -> str:
    """Return a short text for a value, for error messages: as in JSON, but with none for null."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if not isinstance(value, bool | int | float | str | list | tuple):
        return summary(value)
    text = json.dumps(value, default=summary)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"


def _describe_type(wanted: Any) -> str:
    origin, of = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _describe_type(of[0])
    if origin in UNIONS:  # what is said of items comes at the end
        return " or ".join(map(_describe_type, sorted(of, key=takes_several)))
    if origin is Literal:
        return "one of " + ", ".join(map(str, of))
    if origin in LISTS:
        whole = origin is list or of[-1] is ...
        return f"a list, each item {_describe_type(of[0])}" if whole else f"a list of {len(of)} items"
    return "none" if wanted is NoneType else NAMES.get(wanted, "an object")


def choices(wanted: Any) -> tuple[Any, ...]:
    """Return the literals that a type admits, including those in a union."""
    if get_origin(wanted) is Literal:
        return get_args(wanted)
    return tuple(choice for option in get_args(wanted) for choice in choices(option))
