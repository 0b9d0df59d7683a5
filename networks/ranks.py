"""Several processes that train one network, as with DistributedDataParallel: what must be equal in all of them.

Each process calls the same interventions in the same order, on data of its own. Gradients are equal already.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .learner import Learner


def world() -> int:
    """Return the number of processes that have joined; 1 for one that is alone."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


@torch.no_grad()
def average(values: Sequence[Tensor | None]) -> list[Any]:
    """Return the means of tensors over all processes, in their dtypes; a boolean one is true if it is so in any.

    All processes must call it with tensors of the same shapes, and None in the same places."""
    means: list[Any] = list(values)
    for index, value in enumerate(values if world() > 1 else ()):
        if value is not None:
            total = value.to(torch.float64, copy=True)  # in which equal values have exactly their mean
            dist.all_reduce(total)
            means[index] = (total / world()).to(value.dtype)
    return means


@torch.no_grad()
def begin_alike(learner: Learner) -> None:
    """Give a learner the step-0 values and the states of generators of the first process."""
    if world() == 1:
        return
    device = next(learner.module.parameters()).device
    states = [draws.get_state().to(device) for draws in learner.draws]
    for value in (*learner.initial.values(), *states):
        sent = value.to(device).contiguous()
        dist.broadcast(sent, 0)
        value.copy_(sent)
    for draws, state in zip(learner.draws, states, strict=True):
        draws.set_state(state.cpu())


def require_one(who: str) -> None:
    """Raise ValueError if there are several processes, for what adds parameters to a network."""
    if world() > 1:
        raise ValueError(
            f"{who}: it adds parameters, of which {world()} processes would not exchange the gradients: train in one"
        )
