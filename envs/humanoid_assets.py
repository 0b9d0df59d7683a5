"""The location of HumanoidBench's model files on this machine. They are the authors' own files, used unchanged."""

import importlib.util
import os
from functools import cache
from importlib import resources
from pathlib import Path

from supple.registry.cache import cache_folder

VARIABLE = "SUPPLE_HUMANOID_ASSETS"
NAME = "humanoid-bench"


@cache
def manifest() -> dict[str, str]:
    """Return all files that the h1 tasks need: path in the assets folder → SHA-256 in hexadecimal."""
    text = resources.files(__package__).joinpath("humanoid_assets.sha256").read_text(encoding="utf-8")
    return {path: digest for digest, path in (line.split("  ", 1) for line in text.splitlines())}


def assets_folder() -> Path:
    """Return the folder with HumanoidBench's MJCF files and meshes (`envs/h1_pos_walk.xml`, …).

    It is the first that exists of: the `assets` folder of an installed `humanoid_bench` (located without an import,
    which would load JAX), the folder in `SUPPLE_HUMANOID_ASSETS`, the cache that `supple fetch humanoid-bench` fills.
    Raises FileNotFoundError if there is none.
    """
    cached = cache_folder() / NAME
    named = os.environ.get(VARIABLE)
    folder = _find_installed() or (Path(named).expanduser() if named else cached)
    folder = folder.absolute()  # Gymnasium would resolve a relative path in its own folder
    if not folder.is_dir():
        raise FileNotFoundError(
            "HumanoidBench's model files are missing: download them with `supple fetch humanoid-bench`, install "
            f"humanoid_bench, or set {VARIABLE} to its assets folder" + (f" ({named} is not a folder)" if named else "")
        )
    return folder


def _find_installed() -> Path | None:
    spec = importlib.util.find_spec("humanoid_bench")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "assets").is_dir():
            return Path(place) / "assets"
    return None
