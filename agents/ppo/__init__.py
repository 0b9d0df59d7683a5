"""PPO on a stream of environments: the `agent` acts, fills a `rollout`, and learns from it by `update`."""

from typing import TYPE_CHECKING

from .settings import PPOSettings

if TYPE_CHECKING:
    from .agent import PPO
else:

    def __getattr__(name: str) -> object:
        """Import the agent on first use: it needs PyTorch, but help lines only need the settings."""
        if name == "PPO":
            from . import agent

            return getattr(agent, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["PPO", "PPOSettings"]
