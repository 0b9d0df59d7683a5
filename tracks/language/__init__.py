"""Language models: warm starts, scale-invariant balancing, and adapters for sequences of tasks."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .adapters import MoRAM, wrap_moram
else:

    def __getattr__(name: str) -> object:
        """Import the adapters at their first use. They need PyTorch, which presets and help lines do without."""
        if name in __all__:
            from . import adapters

            return getattr(adapters, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["MoRAM", "wrap_moram"]
