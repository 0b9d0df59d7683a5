"""Small versions of a run: every length in steps, updates or epochs is multiplied by the same factor."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ..interventions import parse_hook_text
from ..interventions.schedule import AtStep, Every
from ..registry import Call, parse_call
from ..registry.errors import UsageError
from .settings import RunSettings

S = TypeVar("S", bound=RunSettings)
BETWEEN = r"\s*\+(?![^()]*\))\s*"  # the + between two calls, but not a sign inside parentheses


def scale_settings(settings: S, factor: float) -> tuple[S, float]:
    """Return the settings with every length in steps, updates or epochs multiplied by `factor`.

    This includes the steps in hooks and shifts. Sizes of networks and batches do not change, and fractions of the run
    keep their meaning.

    Args:
        settings: The settings of the whole run.
        factor: In (0, 1].

    Returns:
        The scaled settings, and the factor that was used. It is larger than `factor` if the run would otherwise be
        shorter than `RunSettings.least` allows.

    Raises:
        UsageError: `factor` lies outside (0, 1].
    """
    if not 0 < factor <= 1:
        raise UsageError(f"--scale must be above 0 and at most 1, got {factor}")
    made, length = replace(settings), True
    for name in settings.shrinks:
        old = getattr(settings, name)
        new = scale_value(made, name, old, factor)
        setattr(made, name, new)
        if length and old and not isinstance(old, str):  # the first setting with a number is the length of the run
            factor, length = min(1.0, _sum(new) / _sum(old)), False
    made.hook = scale_hooks(settings.hook, factor)
    return made, factor


def _sum(value: Any) -> float:
    return sum(value) if isinstance(value, tuple) else value


def scale_value(settings: RunSettings, name: str, value: Any, factor: float) -> Any:
    """Return the scaled value of a setting.

    Args:
        settings: The settings, of which those listed before this one in `shrinks` have been scaled already.
        name: The name of the setting.
        value: Its value, or one of several.
        factor: In (0, 1].
    """
    if isinstance(value, tuple):
        return tuple(scale_value(settings, name, part, factor) for part in value)
    if isinstance(value, str):
        if value.replace("_", "").isdecimal():
            return str(scale_value(settings, name, int(value), factor))
        return " + ".join(_scale_call(part, factor) for part in re.split(BETWEEN, value))
    if isinstance(value, float):
        return value * factor
    if not value:  # None, or 0: never
        return value
    least, multiple = settings.least(name)
    return min(value, max(-(-least // multiple), round(value * factor / multiple)) * multiple)


def scale_hooks(texts: Sequence[str], factor: float) -> tuple[str, ...]:
    """Return the texts of hooks, or of several joined by " + ", with steps and periods multiplied by `factor`.

    A text that cannot be parsed is returned unchanged. It is reported when the hooks are read.
    """
    return tuple(" + ".join(_scale_hook(part, factor) for part in re.split(BETWEEN, text)) for text in texts)


def _scale_hook(text: str, factor: float) -> str:
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


def _scale_call(text: str, factor: float) -> str:
    """Return the text of a shift with its transition length `over` multiplied by `factor`."""
    try:
        call = parse_call(text)
    except ValueError:
        return text
    if not isinstance(over := call.params.get("over"), int) or not over:
        return text
    return str(Call(call.name, {**call.params, "over": max(1, round(over * factor))}))


def describe_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return one line that lists the settings whose values changed, by name: old → new."""
    changed = [f"{name} {_shown(old)} → {_shown(after[name])}" for name, old in before.items() if after[name] != old]
    return ", ".join(changed) or "nothing can be smaller"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
