"""SAC with SimBa networks: `agent` acts and learns by `update`; its replay memory is that of `offpolicy`."""

from typing import TYPE_CHECKING

from .settings import SACSettings

if TYPE_CHECKING:
    from .agent import SAC, Control
else:

    def __getattr__(name: str) -> object:
        """Import the agent once it is asked for: it needs PyTorch, while help lines need the settings alone."""
        if name in {"SAC", "Control"}:
            from . import agent

            return getattr(agent, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["SAC", "Control", "SACSettings"]
