"""Stacks of networks: the parameters of one member, draws that do not depend on others, changes of some seeds."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .layers import Layer
from .learner import Learner
from .modules import qualified_name
from .unchanged import keep_states

Source = torch.Generator | Sequence[torch.Generator] | None
Axis = Literal["networks", "seeds", ""]  # what the first axis of a tensor has entries of; "": it belongs to all


def own_axes(layer: Layer) -> tuple[int, ...]:
    """Return the axes of a layer's weight that lie within one network."""
    return tuple(range(int(layer.stacked), layer.weight.ndim))


def normal_like(tensor: Tensor, source: Source) -> Tensor:
    """Return standard normal noise with the shape, dtype and device of a tensor.

    Args:
        tensor: A tensor of any shape; of a stack, (members, …).
        source: A generator, or one for each seed of a stack, which draws for the networks of that seed at once. Their
            noise then equals that of a separate run with this generator. None: PyTorch's global CPU generator.
    """

    def draw(shape: Sequence[int], generator: torch.Generator | None) -> Tensor:
        device = "cpu" if generator is None else generator.device
        return torch.randn(shape, generator=generator, dtype=tensor.dtype, device=device)

    if source is None or isinstance(source, torch.Generator):
        return draw(tensor.shape, source).to(tensor.device)
    shape = len(tensor) // len(source), *tensor.shape[1:]
    return torch.cat([draw(shape, generator) for generator in source]).to(tensor.device)


@contextmanager
def only(learner: Learner, seeds: Collection[int]) -> Iterator[None]:
    """Let a block change nothing but what belongs to these seeds of a stack; the rest is put back, to the bit.

    What is put back are parameters and buffers of the network and of its followers, the step-0 values, the slots and
    counters of the optimizer, and the states of generators. Within the block, the other seeds have the values of the
    first of these seeds, so that nothing is refused because of them. What is common to all seeds does not change. A
    learner that is no stack of seeds is left alone.

    Args:
        learner: The learner. The block must change tensors in place.
        seeds: The positions of at least one seed.
    """
    others = [seed for seed in range(learner.seeds) if seed not in seeds]
    if not others:
        yield
        return
    first = [min(seeds)] * len(others)
    rows: dict[Axis, tuple[Any, Any]] = {
        "networks": (learner.networks_of(others), learner.networks_of(first)),
        "seeds": (others, first),
        "": (..., ...),
    }
    kept = []
    for tensor, axis in _tensors_of(learner):
        where, like = rows[axis]
        kept.append((tensor, where, tensor[where].clone()))
        tensor[where] = tensor[like]
    try:
        with drawing_for(learner, seeds):
            yield
    finally:
        for tensor, where, values in kept:
            tensor[where] = values


def seeds_with(learner: Learner, units: Iterable[Tensor]) -> list[int]:
    """Return the seeds of a stack, by position, with any of some units: masks, (members, units) each."""
    if not learner.seeds:
        return []
    found = torch.stack([learner.by_seed(mask).flatten(1).any(1) for mask in units]).any(0)
    return [seed for seed, any_of_it in enumerate(found.tolist()) if any_of_it]


@contextmanager
def drawing_for(learner: Learner, seeds: Collection[int]) -> Iterator[None]:
    """Put the generators of the other seeds of a stack back after a block in which all seeds draw."""
    others = [seed for seed in range(learner.seeds) if seed not in seeds]
    own = len(learner.redraw_draws) // max(1, learner.seeds)  # of each seed
    sources = [learner.generators[seed] for seed in others if learner.generators]
    sources += [draws for seed in others for draws in learner.redraw_draws[seed * own : (seed + 1) * own]]
    with keep_states(sources):
        yield


def common_buffers(module: nn.Module) -> set[str]:
    """Return the names of the buffers that the networks of a stack have in common: those beside no parameter.

    All parameters have an entry for each network, and so has what lies beside them in a module."""
    alone = {path: part for path, part in module.named_modules() if not [*part.parameters(recurse=False)]}
    return {qualified_name(path, name) for path, part in alone.items() for name, _ in part.named_buffers(recurse=False)}


def _tensors_of(learner: Learner) -> Iterator[tuple[Tensor, Axis]]:
    """Yield the tensors of a learner that interventions may write, and of what their first axis has the entries."""
    common = common_buffers(learner.module)
    for module in (learner.module, *learner.followers):
        for name, tensor in chain(module.named_parameters(), module.named_buffers()):
            yield tensor.detach(), "" if name in common else "networks"
    for name, value in learner.initial.items():
        yield value, "" if name in common else "networks"
    counters: Axis = ""
    if getattr(learner.optimizer, "networks", 0):
        counters = "networks" if getattr(learner.optimizer, "networks", 1) == 1 else "seeds"
    for slots in learner.optimizer.state.values() if learner.optimizer else ():
        for name, value in slots.items():
            if isinstance(value, Tensor):
                yield value, counters if name == "step" else "networks"
