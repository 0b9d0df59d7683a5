"""Networks that diverge: find the tensors that are not finite, and return members of a stack to sound values."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from supple.interventions import Learner
from supple.interventions.contract import EntropyTemperature, zero_slots_
from supple.networks.members import common_buffers
from supple.networks.stacked import fit

Divergence = dict[str, Any]  # the `step` by which a member of a stack had diverged, and the `reason`


def in_words(divergences: Mapping[Any, Divergence]) -> dict[str, str]:
    """Return seed → when and why it diverged, in words that follow the seed."""
    return {str(seed): f"diverged by step {how['step']:,}: {how['reason']}" for seed, how in divergences.items()}


def find_not_finite(learners: Mapping[str, Learner], buffers: bool = True) -> str:
    """Return the name of the first tensor with NaN or infinity, or "" if all are finite.

    buffers: Whether to look at buffers, which may hold −∞ on purpose, as masks do."""
    for name, learner in learners.items():
        for what, tensor in _tensors(learner, buffers):
            if not bool(torch.isfinite(tensor).all()):
                return f"{what} of the {name}"
    return ""


def members_not_finite(learners: Mapping[str, Learner]) -> list[int]:
    """Return the positions of the seeds of a stack whose weights or optimizer slots are not all finite, ascending.

    Each tensor is looked at once, and the results of all are read at once, since that waits for a GPU."""
    wrong: list[Tensor] = []
    for learner in learners.values():
        tensors = [t for _, t in _tensors(learner, buffers=False) if t.shape[:1] == (learner.members,)]
        finite = [tensor.isfinite().reshape(len(tensor), -1).all(1) for tensor in tensors]
        wrong.append((~learner.by_seed(torch.stack(finite).all(0)).all(1)).cpu())
    return torch.nonzero(torch.stack(wrong).any(0)).flatten().tolist() if wrong else []


@torch.no_grad()
def return_to_start(learner: Learner, seeds: Collection[int]) -> None:
    """Set the networks of these seeds of a stack to their values at step 0, and their optimizer slots to zero.

    Followers get the same values. What has no value at step 0, such as layers that an intervention added, is set to
    that of another seed. Step counters go on with those of the others, so that the optimizer's arithmetic stays one
    for all.

    Args:
        learner: The learner of a stack of seeds.
        seeds: The positions of the seeds, not all.
    """
    entries = learner.networks_of(seeds)
    others = learner.networks_of(next([seed] for seed in range(learner.seeds) if seed not in seeds))
    like, common = others * len(seeds), common_buffers(learner.module)
    for name, tensor in learner.module.state_dict().items():
        if name not in common:
            start = learner.initial.get(name)
            known = start is not None and start.shape == tensor.shape
            tensor[entries] = start[entries].to(tensor.device) if start is not None and known else tensor[like]
            for follower in learner.followers:
                follower.state_dict()[name][entries] = tensor[entries]
    if temperature := learner.offers(EntropyTemperature):
        return_to_start(temperature.learner, seeds)
    if learner.optimizer is not None:
        parameters = list(learner.module.parameters())
        mask = torch.zeros(learner.members, dtype=torch.bool)
        mask[entries] = True
        masks = [fit(mask, p).to(p.device) for p in parameters]
        zero_slots_(learner.optimizer, parameters, masks, counters=False)


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
