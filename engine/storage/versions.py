"""The versions of what results depend on, and runs that continue under others or stand beside others."""

import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path

PACKAGES = ("supple", "torch", "numpy", "gymnasium", "mujoco", "ale-py", "minatar", "minigrid", "transformers")
DIGITS = 12  # of the SHA-256 sum that is a plug-in's version
Versions = Mapping[str, str]  # package, or name of a plug-in → version


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


def here(plugins: Mapping[str, str]) -> Versions:
    """Return the versions of what results depend on here, with the plug-ins by their shortened sums."""
    return {**versions(), **{name: value[:DIGITS] for name, value in plugins.items()}}


def remark(path: Path, known: Mapping[str, Sequence[Versions]], plugins: Mapping[str, str]) -> str:
    """Return a line for the user if runs in `path` were trained under other versions than those here, or "".

    `known` are the versions of each run, `plugins` the sums of the plug-ins here. What is not installed here or was not
    there is not compared: no run can use it.
    """
    own = here(plugins)
    others = []
    for name, runs in _runs_by_version(known).items():
        if name in own and (other := sorted(runs.keys() - {own[name]})):
            others.append(f"{name} {' and '.join(other)} (here {own[name]})")
    if not others:
        return ""
    return (
        f"{path} was trained with {', '.join(others)}: it continues, but not bit for bit as it would have with the "
        f"same versions"
    )


def describe_mixed(known: Mapping[str, Sequence[Versions]]) -> list[str]:
    """Return a sentence if runs were not all trained under the same versions, or [].

    `known` are the versions of each run, by the name of its folder.
    """
    mixed = []
    for name, runs in _runs_by_version(known).items():
        if len(runs) > 1:
            more = {value: f" and {len(of) - 1} more" if len(of) > 1 else "" for value, of in runs.items()}
            mixed.append(f"{name} " + ", ".join(f"{value} ({runs[value][0]}{more[value]})" for value in sorted(runs)))
    if not mixed:
        return []
    return [f"trained under different versions, which may be why results differ: {'; '.join(mixed)}"]


def _runs_by_version(known: Mapping[str, Sequence[Versions]]) -> dict[str, dict[str, list[str]]]:
    """Return the names of the runs that were trained under each version of each package."""
    runs: dict[str, dict[str, list[str]]] = {}
    for folder, recorded in known.items():
        for name, value in chain.from_iterable(each.items() for each in recorded):
            folders = runs.setdefault(name, {}).setdefault(value, [])
            if folder not in folders:
                folders.append(folder)
    return runs
