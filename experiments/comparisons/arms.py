"""The texts of arms: hooks and settings of one arm, joined by ` + `, such as `fire@task + learning_rate=0.001`."""

import re

from supple.engine.forks import FRESH, NONE, Variant
from supple.engine.kinds import Kind, value_of
from supple.registry import schema

SETTING = re.compile(r"([\w-]+)=(.+)")  # a part of an arm that is not a hook: a setting for this arm only


def split_arm(arm: str) -> list[str]:
    """Return the parts of an arm's text."""
    return re.split(r"\s+\+\s+", arm.strip())


def hooks_in(arm: str) -> list[str]:
    """Return the parts of an arm that are not settings: its hooks, `none` and `fresh`."""
    return [part for part in split_arm(arm) if not SETTING.fullmatch(part)]


def hooks_of(arm: str) -> tuple[str, ...]:
    """Return the hooks in an arm's text, or ("none",) if it has none."""
    return tuple(part for part in hooks_in(arm) if part != FRESH) or (NONE,)


def settings_in(kind: Kind, arm: str) -> Variant:
    """Return the settings in an arm's text, such as `none + learning_rate=0.001`. Raises UsageError."""
    matches = [match for part in split_arm(arm) if (match := SETTING.fullmatch(part))]
    given = {match[1].replace("-", "_"): match[2] for match in matches}
    return {name: value_of(kind, name, text, schema.read) for name, text in given.items()}


def is_fresh(arm: str) -> bool:
    """Return whether an arm is the reference, a fresh agent in every task."""
    return FRESH in split_arm(arm)
