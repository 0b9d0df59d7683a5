"""Language models that keep learning: warm starts, scale-invariant balancing, adapters for sequences of tasks."""

from .adapters import MoRAM, wrap_moram

__all__ = ["MoRAM", "wrap_moram"]
