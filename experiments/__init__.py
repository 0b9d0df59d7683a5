"""Runs: settings, hooks, checkpoints, comparisons, sweeps, reports.

From Python a whole run or comparison is one call: `train`, `compare`, `resume`; `load` reads results back. A `Sweep` of
studies makes a folder, with which `resume` goes on.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calls import compare, resume, train
    from .points import Space
    from .results import Results, load
    from .study import Study
    from .sweep import Sweep

__all__ = ["Results", "Space", "Study", "Sweep", "compare", "load", "resume", "train"]
HOMES = {"Results": "results", "load": "results", "Space": "points", "Study": "study", "Sweep": "sweep"}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and not before: help texts need the settings in here, and no PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOMES.get(name, 'calls')}", __name__), name)
