"""Find the first tensor of a diverged network that is not finite."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from ..interventions import Learner


def first_not_finite(learners: Mapping[str, Learner]) -> str:
    """Return a text that names the first tensor with NaN or infinity: weights and buffers, then optimizer slots."""
    if found := find_not_finite(learners):
        return f"the first tensor that is not finite is {found}"
    return f"weights and optimizers are finite ({', '.join(learners)})"


def find_not_finite(learners: Mapping[str, Learner], buffers: bool = True) -> str:
    """Return the name of the first tensor with NaN or infinity, or "" if all are finite.

    buffers: Whether to look at buffers, which may hold −∞ on purpose, as masks do."""
    for name, learner in learners.items():
        for what, tensor in _tensors(learner, buffers):
            if not bool(torch.isfinite(tensor).all()):
                return f"{what} of the {name}"
    return ""


def _tensors(learner: Learner, buffers: bool) -> Iterator[tuple[str, Tensor]]:
    module = learner.module
    yield from module.named_parameters()
    if buffers:
        yield from module.named_buffers()
    if learner.optimizer is not None:
        for what, parameter in module.named_parameters():
            for slot, value in learner.optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    yield f"the optimizer's {slot} for {what}", value
