"""Sweep files: the studies of a sweep in TOML. Each table is one study.

    [rates]                                            # a study, and the name of its folder
    kind = "ppo"
    preset = "gym-control-small"
    arms = ["none", "fire@task", "l2_init(strength={strength})"]
    seeds = "0-4"
    settings = { steps_per_task = 20_000 }
    grid = { activation = ["relu", "tanh"], strength = [1e-4, 1e-3] }
    random = { count = 10, seed = 0, learning_rate = { low = 1e-4, high = 1e-2, log = true } }
    points = [{ hidden = [64, 64] }, { hidden = [256, 256] }]

    search = { points = 12, learning_rate = { low = 1e-4, high = 1e-2, log = true } }
    small = { seeds = "0-1", settings = { steps_per_task = 5_000 } }
    published = { source = "Table 2", measure = "mean return", rows = { none = 61.8 } }

The entries of the table `defaults` hold for every study that does not override them. The table `about` describes the
file.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec

from supple.engine.kinds import as_json, find_kind, value_of
from supple.engine.settings import SeedsOption
from supple.registry import describe_unknown, schema
from supple.registry.errors import UsageError, refusing

from .search import GRID, Method, Search
from .space import Choice, Random, Range, Space
from .study import Published, Reference, Study
from .sweep import Sweep

DEFAULTS, ABOUT = "defaults", "about"
Scale = Literal["small", "paper"]
STUDY: dict[str, Any] = {
    "kind": str, "preset": str, "settings": dict[str, Any], "arms": tuple[str, ...], "seeds": SeedsOption,
    "reference": Reference, "fork_at": float, "fork_at_task": int, "leads": str,
    "grid": dict[str, list[Any]], "points": list[dict[str, Any]], "random": dict[str, Any], "search": dict[str, Any],
    "small": dict[str, Any], "published": Published,
}  # fmt: skip
TABLES = ("settings", "grid", "search")  # `small` overrides their entries one by one


class About(TypedDict, total=False):
    """The contents of the table `about`. `hours` are by scale, on the machine that `machine` names. `gpu` is a line."""

    title: str
    source: str
    hours: dict[str, float]
    machine: str
    gpu: str


def read_sweep(
    path: Path,
    scale: Scale = "paper",
    method: Method | None = None,
    settings: Mapping[str, str] | None = None,
    studies: Sequence[str] = (),
) -> Sweep:
    """Return the sweep that a file describes.

    Args:
        path: The TOML file.
        scale: "small" to use only studies with an entry `small`, as changed by it.
        method: The method of the search, instead of the file's.
        settings: Additional settings for every study, as texts, such as the folders of data and models.
        studies: The names of the studies that are wanted, or none for all.

    Raises:
        UsageError: The file is wrong; the message says where.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no sweep file {path}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is not a TOML file: {error}") from error
    with refusing(str(path)):
        data = json.loads(json.dumps(data, default=str))  # a date or a time is no entry's value: a text is refused
        for name, table in data.items():
            if not isinstance(table, dict):
                raise UsageError(f"{name} is outside a table: begin a study with a line such as [{path.stem}]")
        about = schema.convert(data.pop(ABOUT, {}), About, f"[{ABOUT}]")
        defaults = _table(DEFAULTS, data.pop(DEFAULTS, {}))
        if not data:
            raise UsageError("there is no study: begin one with a line such as [rates]")
        for name in studies:
            if name not in data:
                raise UsageError(describe_unknown("study", name, data))
        tables = {name: _merged(defaults, _table(name, data[name])) for name in studies or data}
        if scale == "small":
            # published numbers are for the full scale, and cannot be compared with a smaller one
            whole = {name: {k: v for k, v in table.items() if k != "published"} for name, table in tables.items()}
            tables = {name: _merged(table, table["small"]) for name, table in whole.items() if "small" in table}
            if not tables:
                raise UsageError("the small scale needs at least one study with an entry small = { … }")
        if method and not any("search" in table for table in tables.values()):
            raise UsageError(f"--search {method}: needs at least one study with an entry search = {{ … }}")
        return Sweep([_study(name, table, method, settings or {}) for name, table in tables.items()], about)


def _table(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a study with their declared types.

    Raises ValueError if the name is not allowed, or an entry is unknown or has the wrong type.
    """
    if not re.fullmatch(r"[\w.-]+", name):
        raise UsageError(f"[{name}]: the name of a study has letters, digits, and . _ -")
    for entry in table:
        if entry not in STUDY:
            raise UsageError(f"[{name}]: {describe_unknown('entry', entry, STUDY)}")
    own = schema.convert_entries(table, STUDY, f"[{name}]")
    if small := own.get("small"):
        own["small"] = _table(name, {key: value for key, value in small.items() if key != "small"})
    return own


def _merged(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a table, overridden by those of another (in `TABLES`, entry by entry)."""
    found = {**table, **over}
    for key in TABLES:
        if key in table and key in over:
            found[key] = {**table[key], **over[key]}
    if "small" in table and "small" in over:
        found["small"] = _merged(table["small"], over["small"])
    return found


def _study(name: str, table: dict[str, Any], method: Method | None, settings: Mapping[str, str]) -> Study:
    if "kind" not in table:
        raise UsageError(f"[{name}] has no entry kind; `supple list kinds` shows the kinds of runs")
    kind = find_kind(table["kind"])
    given = {key: as_json(value_of(kind, key, value, schema.read)) for key, value in settings.items()}
    own = {key: value for key, value in _merged(table, {"settings": given}).items() if key != "small"}
    random, search = (own.pop(key, None) for key in ("random", "search"))
    space = Space(own.pop("grid", {}), own.pop("points", ()), _random(name, random) if random else None)
    if search is not None:
        own["search"] = _search(name, search | ({"method": method} if method else {}))
    return Study(name, space=space, **own)


def _random(name: str, table: dict[str, Any]) -> Random:
    where = f"[{name}].random"
    own, values = _drawn(table, {"count": int, "seed": int}, {"count"}, where)
    if own["count"] < 1 or own.get("seed", 0) < 0:
        raise UsageError(f"{where}: count must be 1 or more and seed 0 or more")
    return Random(values=values, **own)


def _search(name: str, table: dict[str, Any]) -> Search:
    types = {
        "points": int,
        "method": Method,
        "share": float,
        "seeds": SeedsOption,
        "measure": str,
        "seed": int,
    }
    required = set() if table.get("method") == GRID else {"points"}
    own, values = _drawn(table, types, required, f"[{name}].search")
    return Search(values, **own)


def _drawn(
    table: Mapping[str, Any], types: Mapping[str, Any], required: set[str], where: str
) -> tuple[dict[str, Any], dict[str, Range | Choice]]:
    """Return the entries of a table named in `types`, and the ranges or choices in its other entries.

    Raises ValueError if an entry has the wrong type, or there is no range or choice.
    """
    own = schema.convert_entries({key: value for key, value in table.items() if key in types}, types, where, required)
    values: dict[str, Range | Choice] = {}
    for key, value in table.items():
        if key not in types:
            if not isinstance(value, dict) or not ({"low", "high"} <= value.keys() or "choice" in value):
                raise UsageError(f"{where}.{key} must be {{ low = 1, high = 2 }} or {{ choice = [1, 2] }}")
            drawn: type[Range | Choice] = Choice if "choice" in value else Range
            with refusing(f"{where}.{key}"):
                values[key] = msgspec.convert(value, drawn)
    if not values:
        raise UsageError(f"{where} has nothing to draw: add e.g. learning_rate = {{ low = 1e-4, high = 1e-2 }}")
    return own, values
