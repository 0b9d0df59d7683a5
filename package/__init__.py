"""Train networks on a changing world, intervene in the middle of training, and measure plasticity.

The most used names are here, and each is imported on its first use:

    supple.train, supple.compare, supple.resume, supple.load, supple.evaluate   whole runs: see `supple.experiments`
    supple.fire_, supple.parse_hook                            in a loop of your own: see `supple.interventions`

All else is in the rooms: `supple.interventions`, `supple.metrics`, `supple.networks`, `supple.engine`,
`supple.experiments`, `supple.reports`, `supple.integrations`, `supple.envs`, `supple.agents`, `supple.tracks`.
"""

from importlib import import_module as _import
from importlib import metadata as _metadata
from typing import TYPE_CHECKING

__all__ = ["__version__", "compare", "evaluate", "fire_", "load", "parse_hook", "resume", "train"]
_ROOMS = (
    "registry", "networks", "interventions", "metrics", "engine", "experiments", "reports", "integrations", "envs",
    "agents", "tracks",
)  # fmt: skip

if TYPE_CHECKING:  # A type checker sees the names themselves, and so finds those that do not exist.
    from . import agents as agents
    from . import engine as engine
    from . import envs as envs
    from . import experiments as experiments
    from . import integrations as integrations
    from . import interventions as interventions
    from . import metrics as metrics
    from . import networks as networks
    from . import registry as registry
    from . import reports as reports
    from . import tracks as tracks
    from .experiments import compare, evaluate, load, resume, train
    from .interventions import fire_, parse_hook

    __version__: str
else:

    def __getattr__(name: str) -> object:
        """Import a name, or a room, on its first use: `import supple` itself imports neither PyTorch nor NumPy."""
        if name == "__version__":
            return _metadata.version("supple")
        if name in _ROOMS:
            return _import(f".{name}", __name__)
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        room = "interventions" if name in ("fire_", "parse_hook") else "experiments"
        return getattr(_import(f".{room}", __name__), name)


def __dir__() -> list[str]:
    dunder = (name for name in globals() if name.startswith("__"))
    return sorted({*dunder, *__all__, *_ROOMS})
