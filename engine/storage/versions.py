"""The versions of what results depend on, and runs that continue under others or stand beside others."""

import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ...registry.errors import RunError, UsageError
from . import signed_json

PACKAGES = ("supple", "torch", "numpy", "gymnasium", "mujoco", "ale-py", "transformers")
LATER = "later_versions"  # the entry of config.json with those under which a run was continued, if others


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def remark(path: Path, folders: Iterable[Path]) -> str:
    """Return a line for the user if runs in `path` were trained under other versions than those here, or "".

    `folders` are those of the runs. What is not installed here or was not there is not compared: no run can use it.
    """
    here, configs = versions(), filter(None, map(_read_config, folders))
    others = _collect_values(each for config in configs for each in _recorded(config))
    words = [
        f"{name} {' and '.join(sorted(other))} (here {here[name]})"
        for name, found in others.items()
        if name in here and (other := found - {here[name]})
    ]
    if not words:
        return ""
    return (
        f"{path} was trained with {', '.join(words)}: it continues, but not bit for bit as it would have with the same "
        f"versions"
    )


def note_later(path: Path, config: dict[str, Any]) -> None:
    """Add the versions here to the config.json of the run in `path`, if it has only been trained under others."""
    here = versions()
    if not any(all(own.get(name, value) == value for name, value in here.items()) for own in _recorded(config)):
        config[LATER] = [*config.get(LATER, []), here]
        signed_json.write_json(path / "config.json", config)


def describe_mixed(configs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence if runs were not all trained under the same versions, or [].

    `configs` are the contents of config.json by the name of the run's folder.
    """
    every = {folder: _recorded(config) for folder, config in configs.items()}
    found = _collect_values(each for own in every.values() for each in own)
    words = []
    for name, values in found.items():
        if len(values) > 1:
            where = {value: [run for run, own in every.items() if _has(own, name, value)] for value in sorted(values)}
            words.append(f"{name} " + ", ".join(f"{value} ({_shorten_list(runs)})" for value, runs in where.items()))
    if not words:
        return []
    return [f"trained under different versions, which may be why results differ: {'; '.join(words)}"]


def _read_config(folder: Path) -> Mapping[str, Any] | None:
    """Return the contents of a run's config.json, or None if it is missing or damaged, which is told elsewhere."""
    try:
        return signed_json.read_json(folder / "config.json", str(folder))
    except (RunError, UsageError):
        return None


def _recorded(config: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the versions under which a run was begun, and those under which it was continued."""
    begun, later = config.get("versions"), config.get(LATER)
    return [own for own in (begun, *(later if isinstance(later, list) else [])) if isinstance(own, dict)]


def _collect_values(every: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    """Return all versions of each package."""
    found: dict[str, set[str]] = {}
    for own in every:
        for name, value in own.items():
            found.setdefault(name, set()).add(str(value))
    return found


def _has(every: Iterable[Mapping[str, str]], name: str, value: str) -> bool:
    return any(str(own.get(name)) == value for own in every)


def _shorten_list(runs: list[str]) -> str:
    return runs[0] + (f" and {len(runs) - 1} more" if len(runs) > 1 else "")
