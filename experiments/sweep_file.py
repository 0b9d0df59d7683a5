"""Sweep files: the studies of a sweep as TOML, each table one study.

    [rates]                                            # a study, and the name of its folder
    kind = "ppo"
    preset = "gym-control-small"
    arms = ["none", "fire@task", "l2_init(strength={strength})"]
    seeds = "0-4"
    settings = { steps_per_task = 20_000 }
    grid = { activation = ["relu", "tanh"], strength = [1e-4, 1e-3] }
    random = { count = 10, seed = 0, learning_rate = { low = 1e-4, high = 1e-2, log = true } }
    points = [{ hidden = [64, 64] }, { hidden = [256, 256] }]

What stands in the table `defaults` holds for every study that does not say otherwise.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..registry import did_you_mean
from . import typed
from .errors import UsageError
from .points import Choice, Random, Range, Space
from .settings import Seeds, seeds_of
from .study import Study
from .sweep import Sweep

DEFAULTS = "defaults"
STUDY: dict[str, Any] = {
    "kind": str, "preset": str, "settings": dict[str, Any], "arms": tuple[str, ...], "seeds": str | tuple[int, ...],
    "reference": str, "fork_at": float, "fork_at_task": int, "grid": dict[str, list[Any]],
    "points": list[dict[str, Any]], "random": dict[str, Any],
}  # fmt: skip


def read_sweep(path: Path) -> Sweep:
    """Return the sweep that a file describes. Raises UsageError with the place in the file of what is wrong."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no sweep file {path}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is no TOML file: {error}") from error
    except RecursionError:
        raise UsageError(f"{path} is no TOML file: nested too deeply") from None
    try:
        data = json.loads(json.dumps(data, default=_no_date))
        for name, table in data.items():
            if not isinstance(table, dict):
                raise UsageError(f"{name} stands outside of a table: begin a study with a line such as [{path.stem}]")
        defaults = _table(DEFAULTS, data.pop(DEFAULTS, {}))
        if not data:
            raise UsageError("there is no study: begin one with a line such as [rates]")
        return Sweep([_study(name, defaults | _table(name, table)) for name, table in data.items()])
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def _no_date(value: object) -> Any:
    raise UsageError(f"{value} is a date or a time, which no entry takes")


def _table(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a study, as they are typed. Raises ValueError."""
    if not re.fullmatch(r"[\w.-]+", name) or name in ("report", ".", ".."):
        raise UsageError(f"[{name}]: a study is called by letters, digits, and . _ -, and not report")
    if unknown := next((key for key in table if key not in STUDY), None):
        raise UsageError(f"[{name}] {unknown}: no such entry{did_you_mean(unknown, STUDY)} (known: {', '.join(STUDY)})")
    return typed.entries(table, STUDY, f"[{name}]")


def _study(name: str, table: dict[str, Any]) -> Study:
    if "kind" not in table:
        raise UsageError(f"[{name}] has no kind: which kind of run is it of? (`supple list kinds`)")
    seeds, random = table.pop("seeds", None), table.pop("random", None)
    space = Space(table.pop("grid", {}), table.pop("points", ()), _random(name, random) if random else None)
    return Study(name, seeds=_seeds(name, seeds), space=space, **table)


def _seeds(name: str, seeds: str | Seeds | None) -> Seeds | None:
    if not isinstance(seeds, str):
        return seeds
    try:
        return seeds_of(seeds.replace(",", " ").split())
    except ValueError as error:
        raise UsageError(f"[{name}] seeds: {error}") from error


def _random(name: str, table: dict[str, Any]) -> Random:
    where = f"[{name}].random"
    own = typed.entries(
        {"seed": 0} | {k: table[k] for k in ("count", "seed") if k in table},
        {"count": int, "seed": int},
        where,
        {"count"},
    )
    if own["count"] < 1 or own["seed"] < 0:
        raise UsageError(f"{where}: count is 1 or more and seed 0 or more, got {own['count']} and {own['seed']}")
    values: dict[str, Range | Choice] = {}
    for key, value in table.items():
        if key not in own:
            if not isinstance(value, dict) or not ({"low", "high"} <= value.keys() or "choice" in value):
                raise UsageError(f"{where}.{key}: how is it drawn? {{ low = 1, high = 2 }} or {{ choice = [1, 2] }}")
            values[key] = typed.fitted(value, Choice if "choice" in value else Range, f"{where}.{key}")
    if not values:
        raise UsageError(f"{where} says of nothing how it is drawn: learning_rate = {{ low = 1e-4, high = 1e-2 }}")
    return Random(own["count"], values, own["seed"])
