"""SAC with SimBa networks: the `agent` acts and learns by `update`, with the replay memory of `offpolicy`."""

from .settings import SACSettings

__all__ = ["SACSettings"]
