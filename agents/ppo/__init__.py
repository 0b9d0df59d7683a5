"""PPO on a stream of environments: `agent` acts in them, fills a `rollout`, and learns from it by `update`."""

from typing import TYPE_CHECKING

from .settings import PPOSettings

if TYPE_CHECKING:
    from .agent import PPO
else:

    def __getattr__(name: str) -> object:
        """Import the agent once it is asked for: it needs PyTorch, while help lines need the settings alone."""
        if name == "PPO":
            from . import agent

            return getattr(agent, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["PPO", "PPOSettings"]
