"""Where HumanoidBench's model files are on this machine. They are the authors' own, read unchanged."""

import importlib.util
import os
from functools import cache
from importlib import resources
from pathlib import Path

VARIABLE = "SUPPLE_HUMANOID_ASSETS"
NAME = "humanoid-bench"


def cache_folder() -> Path:
    """Return where `supple fetch` puts what it downloads: `SUPPLE_CACHE`, or `supple` in the user's cache (XDG)."""
    if chosen := os.environ.get("SUPPLE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "supple"


@cache
def manifest() -> dict[str, str]:
    """Return every file that the h1 tasks need: path below the assets' folder → SHA-256, in hexadecimal."""
    text = resources.files(__package__).joinpath("humanoid_assets.sha256").read_text()
    return {path: digest for digest, path in (line.split("  ", 1) for line in text.splitlines())}


def assets_folder() -> Path:
    """Return the folder with HumanoidBench's MJCF files and meshes (`envs/h1_pos_walk.xml`, …).

    The first of: the `assets` folder of an installed `humanoid_bench` (which is found, not imported: it would
    bring in JAX), the folder that `SUPPLE_HUMANOID_ASSETS` names, the cache that `supple fetch humanoid-bench`
    fills. Raises FileNotFoundError, in one line, if there is none, or if the one there is lacks a file.
    """
    cached = cache_folder() / NAME
    folder = (_installed() or _named() or cached).absolute()  # Gymnasium takes a relative path for one of its own
    if not folder.is_dir():
        named = os.environ.get(VARIABLE)
        raise FileNotFoundError(
            "HumanoidBench's model files are needed: `supple fetch humanoid-bench` downloads them, or install "
            f"humanoid_bench, or let {VARIABLE} name its assets folder" + (f" ({named} is no folder)" if named else "")
        )
    for path in manifest():
        if not (folder / path).is_file():
            remedy = f"`supple fetch {NAME}` downloads it" if folder == cached.absolute() else "is it complete?"
            raise FileNotFoundError(f"{folder} lacks HumanoidBench's {path}: {remedy}")
    return folder


def _installed() -> Path | None:
    spec = importlib.util.find_spec("humanoid_bench")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "assets").is_dir():
            return Path(place) / "assets"
    return None


def _named() -> Path | None:
    return Path(named).expanduser() if (named := os.environ.get(VARIABLE)) else None
