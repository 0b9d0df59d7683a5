"""What is known of names that are not registered: successors of old ids, and environments of other packages."""

import re
from collections.abc import Iterable, Mapping

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
    if known_game := games.get(re.sub("[^a-z0-9]", "", game.lower())):
        return known_game
    newer = {
        int(known["version"]): known.group()
        for known in map(VERSIONED.fullmatch, ids)
        if known and known["name"].lower() == old["name"].lower() and int(known["version"]) > int(old["version"])
    }
    return newer[max(newer)] if newer else None
