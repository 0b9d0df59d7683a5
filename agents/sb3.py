"""The callback for Stable-Baselines3 under its public name; it lives in `integrations.sb3`."""

from ..integrations.sb3 import SuppleCallback, learners_of

__all__ = ["SuppleCallback", "learners_of"]
