"""Read `--vary SETTING=VALUES`, with the values in the syntax that the setting has on the command line."""

import re
from collections.abc import Sequence
from typing import Any

from supple.engine.kinds import Kind, value_of
from supple.registry import did_you_mean, schema
from supple.registry.errors import UsageError

VALUE = re.compile(r"""(?:"[^"]*"|'[^']*'|\([^()]*\)|\[[^]]*\]|[^,])+""")  # of commas only these separate


def read_vary(texts: Sequence[str], kind: Kind) -> dict[str, tuple[Any, ...]]:
    """Return the values of each setting by its name."""
    from supple.experiments.comparisons.grid import FIXED  # imports PyTorch, which help does not need

    values_of: dict[str, tuple[Any, ...]] = {}
    known = [name for name in kind.settings_class().__dataclass_fields__ if name not in FIXED]
    for text in texts:
        name, _, listed = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise UsageError(f"--vary {text}: unknown setting {name!r}{did_you_mean(name, known)}")
        values = list(filter(None, map(str.strip, VALUE.findall(listed))))
        if not values or name in values_of:
            raise UsageError(f"--vary {text}: expected each setting once, as NAME=VALUE,VALUE")
        values_of[name] = tuple(value_of(kind, name, value, schema.read) for value in values)
    return values_of
