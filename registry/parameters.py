"""Validation of keyword parameters against a factory's signature, with messages for users."""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from .messages import brief
from .names import did_you_mean


def bind(factory: Callable[..., Any], params: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check keyword parameters against a factory's signature, and return them ready for the call.

    `factory(**bind(factory, params, "fire"))` raises, if at all, one line that names the parameter. Values are checked
    against annotations made of int, float, bool, str, None, Literal, unions and tuples. An int is accepted as a float,
    a bool never as a number. The factory checks other annotations.

    Args:
        factory: The function or class that is called.
        params: The parameters by name.
        where: The name of the factory in messages, usually its registered name.

    Raises:
        ValueError: A parameter is unknown, a value has the wrong type, or a required parameter is missing.
    """
    parameters = inspect.signature(factory, eval_str=True).parameters.values()
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name, value in params.items():
        if name in named:
            _check(value, named[name].annotation, f"{where}: {name}")
        elif not takes_any:
            listed = f"parameters: {', '.join(named)}" if named else "it takes no parameters"
            raise ValueError(f"{where} has no parameter {brief(name)!r}{did_you_mean(name, named)} ({listed})")
    missing = [p.name for p in named.values() if p.default is p.empty and p.name not in params]
    if missing:
        raise ValueError(f"{where} needs a value for {', '.join(map(repr, missing))}")
    return dict(params)


def _check(value: object, annotation: Any, where: str) -> None:
    if not _fits(value, annotation):
        words = [c for c in _choices(annotation) if isinstance(c, str)]
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        raise ValueError(f"{where} must be {_describe(annotation)}, not {brief(repr(value))}{hint}")


def _fits(value: object, annotation: Any) -> bool:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in arguments)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return isinstance(value, tuple) and all(_fits(item, arguments[0]) for item in value)
    if annotation in (None, type(None)):
        return value is None
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in (bool, str, tuple):
        return isinstance(value, annotation)
    return True


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Return the literal values that an annotation admits, those inside a union included."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(c for option in get_args(annotation) for c in _choices(option))


def _describe(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(option) for option in arguments)
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin is None and isinstance(annotation, type):
        return "None" if annotation is type(None) else annotation.__name__
    return str(annotation)
