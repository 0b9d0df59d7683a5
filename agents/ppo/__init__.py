"""PPO on a stream of environments: the `agent` acts, fills a `rollout`, and learns from it by `update`."""

from .settings import PPOSettings

__all__ = ["PPOSettings"]
