"""SAC with SimBa networks: the `agent` acts and learns by `update`, with the replay memory of `offpolicy`."""

from typing import TYPE_CHECKING

from .settings import SACSettings

if TYPE_CHECKING:
    from .agent import SAC, Control
else:

    def __getattr__(name: str) -> object:
        """Import the agent on first use: it needs PyTorch, but help lines only need the settings."""
        if name in {"SAC", "Control"}:
            from . import agent

            return getattr(agent, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["SAC", "Control", "SACSettings"]
