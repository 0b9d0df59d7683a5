"""Hooks and metrics for Stable-Baselines3: a callback, and the learners of a model."""

from .callback import SuppleCallback
from .learners import learners_of

__all__ = ["SuppleCallback", "learners_of"]
