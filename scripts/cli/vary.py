"""Read `--vary SETTING=VALUES`, with the values in the syntax that the setting has on the command line."""

import re
from collections.abc import Sequence
from typing import Any

from supple.engine.kinds import Kind, value_of
from supple.registry import schema
from supple.registry.errors import UsageError

VALUE = re.compile(r"""(?:"[^"]*"|'[^']*'|\([^()]*\)|\[[^]]*\]|[^,])+""")  # of commas only these separate


def read_vary(texts: Sequence[str], kind: Kind) -> dict[str, tuple[Any, ...]]:
    """Return the values of each setting by its name."""
    values_of: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        name = name.strip().replace("-", "_")
        values = list(filter(None, map(str.strip, VALUE.findall(listed))))
        if not values or name in values_of:
            raise UsageError(f"--vary {text}: expected each setting once, as NAME=VALUE,VALUE")
        values_of[name] = tuple(value_of(kind, name, value, schema.read) for value in values)
    return values_of
