"""`--vary SETTING=VALUES`: a grid of settings, read as the command line reads these settings."""

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from supple.experiments.errors import UsageError
from supple.experiments.settings import RunSettings
from supple.registry import did_you_mean
from supple.scripts.console import parse

VALUE = re.compile(r"""(?:"[^"]*"|'[^']*'|\([^()]*\)|[^,])+""")  # commas in quotes and brackets part nothing


def read_vary(texts: Sequence[str], settings: type[RunSettings]) -> dict[str, tuple[str, ...]]:
    """Return name of a setting → its values as they were typed. Raises UsageError."""
    found: dict[str, tuple[str, ...]] = {}
    known = [name for name in settings.__dataclass_fields__ if name not in ("hook", "seed", "seeds")]
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise UsageError(f"--vary {text}: no setting {name!r}{did_you_mean(name, known)}")
        given = tuple(value for part in VALUE.findall(values) if (value := part.strip()))
        if not given or len(set(given)) < len(given) or name in found:
            raise UsageError(f"--vary {text}: give each setting once, with different values, as NAME=VALUE,VALUE")
        found[name] = given
    return found


def variants(vary: Mapping[str, Sequence[str]], settings: type[RunSettings], prog: str) -> tuple[dict[str, Any], ...]:
    """Return all combinations of the values. Raises UsageError."""
    read = {name: [_value(name, value, settings, prog) for value in values] for name, values in vary.items()}
    for name, values in read.items():
        if any(values.count(value) > 1 for value in values):
            raise UsageError(f"--vary {name}={','.join(vary[name])}: two of the values are the same")
    return tuple(dict(zip(read, values, strict=True)) for values in product(*read.values()))


def _value(name: str, value: str, settings: type[RunSettings], prog: str) -> Any:
    option, several = f"--{name.replace('_', '-')}", isinstance(settings.__dataclass_fields__[name].default, tuple)
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise UsageError(f"--vary {name}={value}: {str(error).lower()}") from error
    return getattr(parse(settings, None, [option, *(words if several else [" ".join(words)])], prog, ""), name)
