"""Runs: settings, hooks, checkpoints, comparisons, reports.

From Python a whole run or comparison is one call: `train`, `compare`, `resume`; `load` reads results back.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calls import compare, resume, train
    from .results import Results, load

__all__ = ["Results", "compare", "load", "resume", "train"]


def __getattr__(name: str) -> Any:
    """Import what is asked for, and not before: help texts need the settings in here, and no PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import calls

    return getattr(calls, name)
