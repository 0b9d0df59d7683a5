"""What agents with a replay memory have in common."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
from torch import Tensor

from supple.agents.stacks import StackedAgent
from supple.engine.work import Numbers
from supple.registry.errors import Diverged

from .experience import Experience


class ReplayAgent(StackedAgent):
    """An agent, or a stack of them, that learns from its `experience`."""

    experience: Experience[Any]

    def sound(self) -> Tensor:
        """Return whether the means of the statistics since the last `numbers` are finite, () or (members,)."""
        return self.experience.sums.isfinite().all(-1)

    def freeze(self, members: Sequence[int]) -> None:
        """Let the data of these members of a stack, which have diverged, be finite."""
        self.experience.freeze(members)

    def numbers(self) -> Numbers:
        """Return the size of the replay memory, and the means of the statistics since the last call.

        In a stack, each is a list of one number for each member, and those of a member that is not `sound` are no
        numbers. Outside a stack, raises Diverged if a mean is not finite."""
        seen = self.experience
        sizes: list[float] = seen.memory.sizes().astype(np.float64).tolist()
        lists = {"replay/size": sizes}
        if seen.updates:
            means = (seen.sums / seen.updates).reshape(len(sizes), -1).T.tolist()
            lists |= dict(zip(seen.statistics, means, strict=True)) | {"updates": [float(seen.updates)] * len(sizes)}
        seen.sums.zero_()
        seen.updates = 0
        if self.stack:
            return dict(lists)
        if not all(isfinite(value) for [value] in lists.values()):
            raise Diverged("the loss is not finite")
        return {name: value for name, [value] in lists.items()}
