"""Hooks and metrics for Stable-Baselines3: a callback, and the learners of a model."""

from .callback import SuppleCallback
from .learners import learners_of
from .saved import learners_of_saved

__all__ = ["SuppleCallback", "learners_of", "learners_of_saved"]
