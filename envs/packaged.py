"""Environments of other packages by name, `minatar:breakout` or `minigrid:DoorKey-5x5`, and hints for unknown names.

MiniGrid and BabyAI: Chevalier-Boisvert et al. 2023, arXiv 2306.13831.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from supple.registry import near_names

from .minatar import require_minatar

ATARI_SUFFIX = re.compile(r"(-ram)?(NoFrameskip|Deterministic)?$")
VERSIONED = re.compile(r"(?P<name>.+)-v(?P<version>\d+)")

# Where a name or a module begins like this, what makes the environment work. Seen with the newest releases in 2026.
PACKAGES = {
    r"(minigrid|babyai)\b": (
        "MiniGrid's tasks are named like minigrid:DoorKey-5x5 (see `supple list games`), and show no text of a mission"
    ),
    r"min_?atar\b": "MinAtar's games are named like minatar:breakout (see `supple list games`)",
    r"(dm_?control|dm_?c|dm_?suite|shimmy)\b": (
        "the DeepMind Control Suite comes with shimmy, but dm-control 1.0.50 does not run with MuJoCo 4: "
        "pip install 'shimmy[dm-control]' 'mujoco<4', and use --plugin shimmy --env dm_control/walker-walk-v0"
    ),
    r"(meta-?world|MT\d+|ML\d+|[a-z-]+-v\d-goal-(observable|hidden))\b": (
        "Meta-World does not run with new versions of MuJoCo: metaworld 3.0.0 fails at its first reset with 3.17 and "
        "4.0, and 3.1.1 asks for MuJoCo 3.3.0, so it needs a Python environment of its own"
    ),
}


def import_minigrid() -> None:
    """Import `minigrid`, which registers its environments. Raises ImportError if it is not installed."""
    try:
        import minigrid  # noqa: F401
    except ImportError as error:
        raise ImportError("MiniGrid needs minigrid: pip install 'supple[minigrid]'") from error


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


def shows_mission(env: gym.Env) -> bool:
    """Return whether observations are those of MiniGrid itself, and not those of one of its wrappers."""
    module = type(env.unwrapped).__module__
    return module.startswith("minigrid.") and env.observation_space is env.unwrapped.observation_space


class WithoutMission(gym.ObservationWrapper):
    """A wrapper that shows the image and the direction of a MiniGrid environment, and leaves its mission, a text, out.

    The bounds of the image are those of its values, of which the largest are the kinds of things, instead of 0 and 255,
    so that networks which scale it by its bounds see numbers from 0 to 1.
    """

    def __init__(self, env: gym.Env) -> None:
        from minigrid.core.constants import OBJECT_TO_IDX

        super().__init__(env)
        shown = env.observation_space
        assert isinstance(shown, gym.spaces.Dict)
        image = gym.spaces.Box(0, max(OBJECT_TO_IDX.values()), shown["image"].shape, np.uint8)
        self.observation_space = gym.spaces.Dict({"image": image, "direction": shown["direction"]})

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        return {"image": observation["image"], "direction": observation["direction"]}


def package_hint(name: str) -> str:
    """Return what makes an environment of another package work, by its id or module, or "" for unknown ones."""
    hints = (hint for pattern, hint in PACKAGES.items() if re.match(pattern, name, re.IGNORECASE))
    return next(hints, "")


def successor(name: str, ids: Iterable[str], games: Mapping[str, str]) -> str | None:
    """Return the newest version of an id such as HalfCheetah-v3 or PongNoFrameskip-v4, or None if it has no newer one.

    Args:
        name: The id.
        ids: The registered ids.
        games: The ids of Atari games, by their names in lower case without separators.
    """
    if not (old := VERSIONED.fullmatch(name)):
        return None
    game = ATARI_SUFFIX.sub("", old["name"].rpartition("/")[2])
    if known_game := games.get(squash(game)):
        return known_game
    newer = {
        int(known["version"]): known.group()
        for known in map(VERSIONED.fullmatch, ids)
        if known and known["name"].lower() == old["name"].lower() and int(known["version"]) > int(old["version"])
    }
    return newer[max(newer)] if newer else None
