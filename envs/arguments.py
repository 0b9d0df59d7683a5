"""What is said of keyword arguments with which an environment does not work."""

import inspect
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from supple.registry import bind, did_you_mean

from .fault import EnvironmentFault
from .make import resolve_env

HIDDEN = ("self", "render_mode")  # which are not the user's to give


def describe_refusal(name: str, kwargs: Mapping[str, Any], fault: EnvironmentFault) -> str:
    """Return in one line what is wrong with the keyword arguments of an environment that failed with them.

    It is the argument that the environment lacks, one with another type than the one declared, or what happened."""
    env_id = resolve_env(name)
    spec = gym.spec(env_id)
    with suppress(Exception):  # other people's signatures, which may not be readable
        place = spec.entry_point
        entry: Any = load_env_creator(place) if isinstance(place, str) else place
        known, takes_any = _parameters(entry)
        unknown = [key for key in kwargs if key not in known]
        if unknown and (not takes_any or f"'{unknown[0]}'" in fault.what):
            has = f"it has {', '.join(sorted(known))}" if known else "it has none"
            return f"{env_id} has no argument {unknown[0]!r}{did_you_mean(unknown[0], known)} ({has})"
        try:
            bind(entry, {**spec.kwargs, **kwargs}, env_id)
        except ValueError as error:
            if any(f"{env_id}: {key}" in str(error) for key in kwargs):
                return str(error)
    return f"{env_id} fails with {json.dumps(dict(kwargs))}: {fault.what}"


def _parameters(entry: Any) -> tuple[set[str], bool]:
    """Return the names of the parameters of a function or class, and whether it takes others too.

    A class that takes others is taken to hand them on to its base."""
    parts = [vars(part) for part in entry.__mro__] if inspect.isclass(entry) else [{"__init__": entry}]
    makers = [part["__init__"] for part in parts if "__init__" in part]
    names: set[str] = set()
    for maker in makers:
        parameters = inspect.signature(maker).parameters.values()
        names |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return names - {*HIDDEN}, False
    return names - {*HIDDEN}, True
