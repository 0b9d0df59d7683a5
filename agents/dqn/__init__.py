"""DQN on images and vectors: the `agent` acts and learns, with the replay memory of `offpolicy`."""

from .settings import DQNSettings

__all__ = ["DQNSettings"]
