"""Hare & Tortoise returns the network to a moving average of its own past parameters.

    tortoise ← μ·tortoise + (1 − μ)·hare   after every update
    hare ← tortoise                        when the schedule fires

The hare is the network that is trained, acts and is evaluated. The tortoise is its moving average, which equals the
hare after the first update. Both include buffers, such as the running statistics of batch normalisation. Weights of 16
bits have averages of 16 bits, in which small steps are rounded away.

Source: Lee et al. 2024, "Slow and steady wins the race: maintaining plasticity with hare and tortoise networks" (arXiv
2406.02596).

Resets: contract `uniform` (the optimizer's state of every parameter zeroed, target networks := online network).

Cost: a copy of the network, and one pass over it per update.
"""

import torch
from torch import Tensor

from supple.networks import Learner
from supple.networks.parameters import named_tensors

from .base import Intervention, check_within, interventions
from .contract import UNIFORM, check_optimizer, settle


@interventions.register("hare_tortoise")
class HareTortoise(Intervention):
    """Return the network to its moving average; it needs a schedule, such as `@every:50_000` (Lee et al. 2024).

    Args:
        momentum: μ in [0, 1), per update; 0.999 averages over about the last 1000 updates.
    """

    def __init__(self, momentum: float = 0.999) -> None:
        check_within("hare_tortoise", momentum=(momentum, "[0, 1)"))
        self.momentum = momentum
        self.saved = {}  # by learner, then by identity of parameter or buffer

    def attach(self, learner: Learner) -> None:
        learner.check_trained("hare_tortoise")
        check_optimizer(learner.optimizer)

    def contract(self, learner: Learner) -> dict[str, str]:
        return UNIFORM.describe("all := their moving average", learner)

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        tortoise, slow, fast = self.saved.setdefault(learner.name, {}), [], []
        for name, value in _values(learner).items():
            if name not in tortoise:
                tortoise[name] = value.clone()
            elif value.is_floating_point():
                slow.append(tortoise[name])
                fast.append(value)
            else:
                tortoise[name].copy_(value)
        if slow:
            torch._foreach_lerp_(slow, fast, 1.0 - self.momentum)

    @torch.no_grad()
    def apply(self, learner: Learner) -> list[str]:
        learner.check_trained("hare_tortoise")
        check_optimizer(learner.optimizer)
        tortoise = self.saved.get(learner.name, {})
        frozen = {learner.identity(name) for name in learner.frozen()}
        for name, value in _values(learner).items():
            # it has no average before the first update, or the first since it was added
            if name in tortoise and name not in frozen:
                value.copy_(tortoise[name])
        written = [name for name in learner.writable() if learner.identity(name) in tortoise]
        settle(learner, written, UNIFORM)
        return written


def _values(learner: Learner) -> dict[str, Tensor]:
    return {learner.identity(name): value for name, value in named_tensors(learner.module).items()}
