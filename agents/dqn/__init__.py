"""DQN on images and vectors: `agent` acts and learns; its replay memory is that of `offpolicy`."""

from typing import TYPE_CHECKING

from .settings import DQNSettings

if TYPE_CHECKING:
    from .agent import DQN, Pixels, Vectors
else:

    def __getattr__(name: str) -> object:
        """Import the agent once it is asked for: it needs PyTorch, while help lines need the settings alone."""
        if name in {"DQN", "Pixels", "Vectors"}:
            from . import agent

            return getattr(agent, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["DQN", "DQNSettings", "Pixels", "Vectors"]
