"""Train networks on a changing world, intervene in the middle of training, and measure plasticity.

The most used names are here, and each is imported on its first use:

    supple.train, supple.compare, supple.resume, supple.load   whole runs: see `supple.experiments`
    supple.fire_, supple.parse_hook                            in a loop of your own: see `supple.interventions`

All else is in the rooms: `supple.interventions`, `supple.metrics`, `supple.networks`, `supple.envs`, `supple.agents`,
`supple.tracks`, `supple.experiments`, `supple.integrations`.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .experiments import compare, load, resume, train
    from .interventions import fire_, parse_hook

    __version__: str

__all__ = ["__version__", "compare", "fire_", "load", "parse_hook", "resume", "train"]
ROOMS = ("registry", "networks", "interventions", "metrics", "experiments", "envs", "agents", "tracks", "integrations")


def __getattr__(name: str) -> Any:
    """Import a public name, or a room, on its first use: `import supple` itself imports neither PyTorch nor NumPy."""
    if name == "__version__":
        return metadata.version("supple")
    if name in ROOMS:
        return import_module(f".{name}", __name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = "interventions" if name in ("fire_", "parse_hook") else "experiments"
    return getattr(import_module(f".{room}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *ROOMS})
