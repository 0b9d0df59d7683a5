"""Texts with `{names}` that are replaced by the values of a sweep's points."""

import re
from typing import Any

from supple.registry.errors import UsageError

from .space import Values

HOLE = re.compile(r"\{(\w+)\}")


def holes(value: Any) -> set[str]:
    """Return the names in braces in a text, or in a list of texts."""
    if isinstance(value, list | tuple):
        return {hole for item in value for hole in holes(item)}
    return set(HOLE.findall(value)) if isinstance(value, str) else set()


def fill(value: Any, point: Values) -> Any:
    """Return a text with its `{names}` replaced by a point's values. Raises UsageError if the point lacks one."""
    if isinstance(value, list | tuple):
        return [fill(item, point) for item in value]
    if missing := holes(value) - point.keys():
        raise UsageError(f"{value}: no point has a value for {{{sorted(missing)[0]}}}")
    if alone := HOLE.fullmatch(value):
        return point[alone[1]]
    return HOLE.sub(lambda match: str(point[match[1]]), value)
