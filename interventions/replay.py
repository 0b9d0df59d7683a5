"""Replay forgets old transitions of a replay memory. Networks and optimizers stay as they are.

Without it, an agent that meets a new task goes on learning from transitions of the old one, which look like lost
plasticity from outside. `replay(keep=0)@task` beside `reset@task` tells the two apart.

With keep = k, each environment keeps the newest k·n of its n transitions, rounded up. Batches are drawn from these
and from new ones only. With k = 0, learning pauses until as many transitions as a batch has are new, and the gradient
steps of the pause are left out. The agent goes on acting as before, and target networks go on following.

Source: keeping, flushing or renewing the memory at a switch is common in continual reinforcement learning; Wołczyk et
al. 2021 (Continual World, arXiv:2105.10919) renew it.

Resets: old transitions of the replay memory only.

Cost: none; the memory moves its start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from supple.networks import Learner

from .base import Intervention, check_within, interventions
from .contract import KEPT_DATA, ResetContract


@dataclass(frozen=True)
class ReplayWindow:
    """A capability: the agent's replay memory, which can forget old transitions. One learner of an agent offers it.

    Attributes:
        sizes: Returns the number of transitions of each seed of a stack, or of the only one.
        keep: Forgets all transitions but the newest share in [0, 1] of each environment.
        refusal: Returns why a share cannot be kept, in words, or "".
        marks: All that `keep` writes for a seed, in place, (seeds or 1, …).
    """

    sizes: Callable[[], Sequence[int]]
    keep: Callable[[float], None]
    refusal: Callable[[float], str]
    marks: Tensor


@interventions.register("replay")
class KeepNewest(Intervention):
    """Forget all transitions of the replay memory but the newest; it needs a schedule, such as `@task`.

    Args:
        keep: The share of the transitions that is kept, in [0, 1].
    """

    def __init__(self, keep: float = 0.0) -> None:
        check_within("replay", keep=(keep, "[0, 1]"))
        self.keep = keep
        if not keep:
            self.together = "pauses the learning of all seeds of a stack"

    def concerns(self, learner: Learner) -> bool:
        return learner.offers(ReplayWindow) is not None

    def attach(self, learner: Learner) -> None:
        window = learner.offers(ReplayWindow)
        if window is None:
            raise ValueError(
                f"replay: '{learner.name}' has no replay memory that can forget (supple's DQN and SAC have one)"
            )
        if reason := window.refusal(self.keep):
            raise ValueError(f"replay: {reason}")

    def contract(self, learner: Learner) -> dict[str, str]:
        kept = f"newest {self.keep:.4g} of" if self.keep else "nothing of"
        columns = {KEPT_DATA: f"{kept} the replay memory kept; the others kept"}
        return ResetContract(optimizer="kept", target="kept").describe("kept", learner, columns)

    def apply(self, learner: Learner) -> list[str]:
        window = learner.offers(ReplayWindow)
        assert window is not None
        window.keep(self.keep)
        return []
