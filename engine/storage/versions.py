"""The versions of what results depend on, and runs that continue under others or stand beside others."""

import platform
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from supple.registry.errors import RunError, UsageError

from . import signed_json

PACKAGES = ("supple", "torch", "numpy", "gymnasium", "mujoco", "ale-py", "minatar", "minigrid", "transformers")
LATER = "later_versions"  # the entry of config.json with those under which a run was continued, if others
DIGITS = 12  # of the SHA-256 sum that is a plug-in's version


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    installed = {name: version for name in PACKAGES if (version := _version(name))}
    return {"python": platform.python_version(), **installed}


@cache  # the long texts that it is read from are parsed
def _version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def remark(path: Path, folders: Iterable[Path], plugins: Mapping[str, str]) -> str:
    """Return a line for the user if runs in `path` were trained under other versions than those here, or "".

    `folders` are those of the runs, `plugins` the sums of the plug-ins here. What is not installed here or was not
    there is not compared: no run can use it.
    """
    here = {**versions(), **_shorten(plugins)}
    others = []
    for name, runs in _runs_by_version({str(folder): _read_config(folder) for folder in folders}).items():
        if name in here and (other := sorted(runs.keys() - {here[name]})):
            others.append(f"{name} {' and '.join(other)} (here {here[name]})")
    if not others:
        return ""
    return (
        f"{path} was trained with {', '.join(others)}: it continues, but not bit for bit as it would have with the "
        f"same versions"
    )


def note_later(path: Path, config: dict[str, Any], plugins: Mapping[str, str]) -> None:
    """Add the versions here to the config.json of the run in `path`, if it has only been trained under others.

    `plugins` are the sums of the plug-ins here. They replace those that were recorded, which stay among the versions.
    """
    here = {**versions(), **_shorten(plugins)}
    known = _recorded(config)
    same = any(all(recorded.get(name, value) == value for name, value in here.items()) for recorded in known)
    if not same or config.get("plugins", {}) != plugins:
        begun, *later = known
        config.update({**({"plugins": plugins} if plugins else {}), "versions": begun, LATER: [*later, here]})
        signed_json.write_json(path / "config.json", config)


def describe_mixed(configs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence if runs were not all trained under the same versions, or [].

    `configs` are the contents of config.json by the name of the run's folder.
    """
    mixed = []
    for name, runs in _runs_by_version(configs).items():
        if len(runs) > 1:
            more = {value: f" and {len(of) - 1} more" if len(of) > 1 else "" for value, of in runs.items()}
            mixed.append(f"{name} " + ", ".join(f"{value} ({runs[value][0]}{more[value]})" for value in sorted(runs)))
    if not mixed:
        return []
    return [f"trained under different versions, which may be why results differ: {'; '.join(mixed)}"]


def _read_config(folder: Path) -> Mapping[str, Any]:
    """Return the contents of a run's config.json, or {} if it is missing or damaged, which is reported elsewhere."""
    try:
        return signed_json.read_json(folder / "config.json", str(folder))
    except (RunError, UsageError):
        return {}


def _recorded(config: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the versions under which a run was begun, and those under which it was continued."""
    begun, later = config.get("versions"), config.get(LATER)
    entries = [entry for entry in (begun, *(later if isinstance(later, list) else [])) if isinstance(entry, dict)]
    return [{**_shorten(config.get("plugins", {})), **entry} for entry in entries]


def _shorten(plugins: Mapping[str, str]) -> dict[str, str]:
    return {name: value[:DIGITS] for name, value in plugins.items()}


def _runs_by_version(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return the names of the runs that were trained under each version of each package."""
    runs: dict[str, dict[str, list[str]]] = {}
    for folder, config in configs.items():
        for recorded in _recorded(config):
            for name, value in recorded.items():
                folders = runs.setdefault(name, {}).setdefault(str(value), [])
                if folder not in folders:
                    folders.append(folder)
    return runs
