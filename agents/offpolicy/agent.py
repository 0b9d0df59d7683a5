"""What agents with a replay memory have in common."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from supple.agents.stacks import StackedAgent
from supple.engine.work import Numbers

from .experience import Experience


class ReplayAgent(StackedAgent):
    """An agent, or a stack of them, that learns from its `experience`."""

    experience: Experience[Any]

    def sound(self) -> Tensor:
        """Return whether the losses since the last call of `numbers` are finite, () or (members,)."""
        return self.experience.sound()

    def freeze(self, members: Sequence[int]) -> None:
        """Let the data of these members of a stack, which have diverged, be finite."""
        self.experience.freeze(members)

    def numbers(self) -> Numbers:
        """Return the size of the replay memory, and the means of the statistics since the last call."""
        return self.experience.numbers()
