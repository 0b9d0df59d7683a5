"""Environments of other packages by name: `minatar:breakout`, `minigrid:DoorKey-5x5`."""

import re
from collections.abc import Callable
from typing import NamedTuple

import gymnasium as gym

from supple.registry import near_names

from .minatar import require_minatar
from .minigrid import import_minigrid


class EnvPackage(NamedTuple):
    """A package of environments, which is only imported if one of them is used.

    Attributes:
        title: What it is called.
        named: A regular expression for the beginning of names and ids of its environments.
        load: Registers its environments, or raises ImportError, which says how to install it.
        prefix: The beginning of its ids, which short names leave out.
    """

    title: str
    named: str
    load: Callable[[], None]
    prefix: str


PACKAGED = {
    "minatar": EnvPackage("MinAtar", "minatar[:/]", require_minatar, "MinAtar/"),
    "minigrid": EnvPackage("MiniGrid", "minigrid[:-]|babyai-", import_minigrid, "MiniGrid-"),
}


def find_packaged(name: str) -> str | None:
    """Return the Gymnasium id of an environment of a package, or None if the name is not that of one.

    Names may have any case and separators, and may leave out the prefix of the ids and the version, which is then 0.

    Raises:
        ValueError: The package has no such environment. The message has the nearest names.
        ImportError: The package is not installed.
    """
    found = [short for short, package in PACKAGED.items() if re.match(package.named, name, re.IGNORECASE)]
    if not found or name in gym.registry:
        return None
    names = packaged_names(found[0])
    known = {squash(spelt): env_id for short, env_id in names.items() for spelt in (short, env_id)}
    known |= {squash(f"{found[0]}{env_id}"): env_id for env_id in names.values()}
    wanted = squash(name)
    for spelt in (wanted, f"{wanted}v0"):
        if spelt in known:
            return known[spelt]
    shown = {short.partition(":")[2].lower(): short for short in names}
    near = near_names(re.sub(PACKAGED[found[0]].named, "", name.lower()), shown, most=3)
    hint = f": did you mean {' or '.join(repr(shown[short]) for short in near)}?" if near else ""
    raise ValueError(f"{PACKAGED[found[0]].title} has no environment {name!r}{hint} (see `supple list games`)")


def packaged_names(module: str) -> dict[str, str]:
    """Return the environments of a package: short name (`minatar:breakout`) → id (`MinAtar/Breakout-v0`).

    Raises ImportError if it is not installed.
    """
    package = PACKAGED[module]
    package.load()
    ids = sorted(name for name in gym.registry if re.match(package.named, name, re.IGNORECASE))
    return {f"{module}:{env_id.removeprefix(package.prefix).removesuffix('-v0')}": env_id for env_id in ids}


def squash(name: str) -> str:
    """Return a name in lower case and without separators."""
    return re.sub("[^a-z0-9]", "", name.lower())
