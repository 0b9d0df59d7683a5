"""A whole experiment in little: every schedule of a run, shrunk by the same factor."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..interventions import parse_hook_text
from ..interventions.schedule import AtStep, Every
from ..registry import Call, parse_call
from .errors import UsageError
from .settings import RunSettings

S = TypeVar("S", bound=RunSettings)
BETWEEN = r"\s*\+(?![^()]*\))\s*"  # calls that are joined; not the sign of a number in parentheses


def scaled(settings: S, factor: float) -> tuple[S, float]:
    """Return the settings with every number of steps, updates or passes times `factor`, those of hooks and shifts too;
    sizes of networks and batches stay, and fractions of the run mean the same as before.

    factor: in (0, 1]. A run cannot be shorter than what works (`RunSettings.least`): where that is longer, all else
    is shrunk as little, and the factor that was used is returned with the settings. Raises UsageError.
    """
    if not 0 < factor <= 1:
        raise UsageError(f"--scale must lie above 0 and be 1 at most, got {factor}")
    made, length = replace(settings), True
    for name in settings.shrinks:
        old = getattr(settings, name)
        new = scaled_value(made, name, old, factor)
        setattr(made, name, new)
        if length and old:  # the first that has a value is how long the run is
            factor, length = min(1.0, _sum(new) / _sum(old)), False
    made.hook = scaled_hooks(settings.hook, factor)
    return made, factor


def _sum(value: Any) -> float:
    return sum(value) if isinstance(value, tuple) else value


def scaled_value(settings: RunSettings, name: str, value: Any, factor: float) -> Any:
    """Return what one of the settings that `shrinks` names becomes; those before it are shrunk already."""
    if isinstance(value, tuple):
        return tuple(scaled_value(settings, name, part, factor) for part in value)
    if isinstance(value, str):
        if value.replace("_", "").isdecimal():
            return str(scaled_value(settings, name, int(value), factor))
        return " + ".join(_scaled_call(part, factor) for part in re.split(BETWEEN, value))
    if isinstance(value, float):
        return value * factor
    if not value:  # None, or 0: never
        return value
    least, multiple = settings.least(name)
    return min(value, max(-(-least // multiple), round(value * factor / multiple)) * multiple)


def scaled_hooks(texts: Sequence[str], factor: float) -> tuple[str, ...]:
    """Return texts of hooks, or of several joined by " + ", in which steps and periods are times `factor`; a text that
    is no hook stays, for its reader says what is wrong with it."""
    return tuple(" + ".join(_scaled_hook(part, factor) for part in re.split(BETWEEN, text)) for text in texts)


def _scaled_hook(text: str, factor: float) -> str:
    try:
        hook = parse_hook_text(text)
    except ValueError:
        return text
    when = hook.schedule
    if isinstance(when, AtStep) and when.step:
        return str(replace(hook, schedule=AtStep(max(1, round(when.step * factor)))))
    if isinstance(when, Every) and isinstance(when.period, int):
        return str(replace(hook, schedule=Every(max(1, round(when.period * factor)))))
    return text


def _scaled_call(text: str, factor: float) -> str:
    """Return the text of a shift, in which the steps that it comes over are times `factor`."""
    try:
        call = parse_call(text)
    except ValueError:
        return text
    if not isinstance(over := call.params.get("over"), int) or not over:
        return text
    return str(Call(call.name, {**call.params, "over": max(1, round(over * factor))}))


def told(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what became of settings, by name, in one line."""
    changed = [f"{name} {_shown(old)} → {_shown(after[name])}" for name, old in before.items() if after[name] != old]
    return ", ".join(changed) or "nothing can be smaller"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
