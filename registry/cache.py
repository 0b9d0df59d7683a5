"""The folder for files that are downloaded or decoded once."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `SUPPLE_CACHE`, or `supple` in the user's XDG cache."""
    if chosen := os.environ.get("SUPPLE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "supple"
