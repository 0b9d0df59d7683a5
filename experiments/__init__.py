"""Many runs: comparisons, sweeps, and results as data frames.

From Python, `train` makes a run, `compare` a comparison, and `resume` continues either. `load` reads the results, and
`evaluate` evaluates the trained networks again. A `Sweep` of studies makes a folder, which `resume` continues too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import compare, resume, train
    from .evaluation import evaluate
    from .results import Results, load
    from .sweeps.space import Space
    from .sweeps.study import Study
    from .sweeps.sweep import Sweep

__all__ = ["Results", "Space", "Study", "Sweep", "compare", "evaluate", "load", "resume", "train"]
HOMES = {
    "Results": "results", "load": "results", "evaluate": "evaluation", "Space": "sweeps.space", "Study": "sweeps.study",
    "Sweep": "sweeps.sweep",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a public name on first use: help texts need the suites of this package, but not PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{HOMES.get(name, 'api')}", __name__), name)
