"""Read `--vary SETTING=VALUES`, with the values in the syntax that the setting has on the command line."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

from supple.engine.settings import RunSettings
from supple.registry import did_you_mean
from supple.registry.errors import UsageError
from supple.scripts.cli.console import parse

VALUE = re.compile(r"""(?:"[^"]*"|'[^']*'|\([^()]*\)|[^,])+""")  # commas in quotes or brackets do not separate values


def read_vary(texts: Sequence[str], settings: type[RunSettings], prog: str) -> dict[str, tuple[Any, ...]]:
    """Return the values of each setting by its name."""
    from supple.experiments.comparisons.grid import FIXED  # imports PyTorch, which help does not need

    values_of: dict[str, tuple[Any, ...]] = {}
    known = [name for name in settings.__dataclass_fields__ if name not in FIXED]
    for text in texts:
        name, _, listed = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise UsageError(f"--vary {text}: unknown setting {name!r}{did_you_mean(name, known)}")
        values = list(filter(None, map(str.strip, VALUE.findall(listed))))
        if not values or name in values_of:
            raise UsageError(f"--vary {text}: expected each setting once, as NAME=VALUE,VALUE")
        values_of[name] = tuple(_read_value(name, value, settings, prog) for value in values)
    return values_of


def _read_value(name: str, value: str, settings: type[RunSettings], prog: str) -> Any:
    option, several = f"--{name.replace('_', '-')}", isinstance(settings.__dataclass_fields__[name].default, tuple)
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise UsageError(f"--vary {name}={value}: {str(error).lower()}") from error
    return getattr(parse(settings, [option, *(words if several else [" ".join(words)])], prog, ""), name)
