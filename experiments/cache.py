"""Where what is downloaded or decoded once is kept on this machine."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return `SUPPLE_CACHE`, or `supple` in the user's cache (XDG). `envs/`, which stands alone, has the same rule."""
    if chosen := os.environ.get("SUPPLE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "supple"
