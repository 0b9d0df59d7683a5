"""Language models that keep learning: warm starts, scale-invariant balancing, adapters for sequences of tasks."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .adapters import MoRAM, wrap_moram
else:

    def __getattr__(name: str) -> object:
        """Import the adapters once they are asked for: they need PyTorch, while presets and help lines do not."""
        if name in __all__:
            from . import adapters

            return getattr(adapters, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["MoRAM", "wrap_moram"]
