"""DQN on images and vectors: the `agent` acts and learns, with the replay memory of `offpolicy`."""

from typing import TYPE_CHECKING

from .settings import DQNSettings

if TYPE_CHECKING:
    from .agent import DQN, Pixels, Vectors
else:

    def __getattr__(name: str) -> object:
        """Import the agent on first use: it needs PyTorch, but help lines only need the settings."""
        if name in {"DQN", "Pixels", "Vectors"}:
            from . import agent

            return getattr(agent, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["DQN", "DQNSettings", "Pixels", "Vectors"]
