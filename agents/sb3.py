"""The public name of the callback for Stable-Baselines3, which is defined in `integrations.sb3`."""

from supple.integrations.sb3 import SuppleCallback, learners_of

__all__ = ["SuppleCallback", "learners_of"]
