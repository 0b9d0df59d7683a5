"""New draws of a network's initial parameters, and the parameters of which there can be none."""

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from supple.registry import one_line

from .parameters import names_by_parameter
from .unchanged import keep_generators

UNIFORM = (
    2.2  # kurtosis (without subtracting 3) below which a sample counts as uniform, which has 1.8; a normal one has 3
)
LARGEST = 0.1  # relative difference of two mean squares that may still come from one distribution


def redraw(module: nn.Module, generator: torch.Generator | None = None) -> dict[str, Tensor]:
    """Return new initial values, on the CPU, for every layer that can draw them, by qualified name.

    A layer draws them by `reset_parameters` (`_reset_parameters` of attention). A parameter that no layer draws is left
    out: one that a module makes in its `__init__`, such as a class token, one behind a parametrization, or one that
    layers of different kinds share. The distribution is that of the layers, whatever the network's own code did to them
    afterwards.

    The module does not change. Draws come from `generator` (default: torch's global CPU generator), which advances by
    one number; no other generator changes. Layers are reset in the order of their definition, and a part with its own
    `reset_parameters` after the layers in it. Networks with another initialisation set `Learner.redraw` instead.

    Raises ValueError for a module that cannot be copied.
    """
    # stored results of a forward pass cannot be copied
    results = [x for part in module.modules() for x in tree_leaves(vars(part)) if isinstance(x, Tensor) and x.grad_fn]
    try:
        fresh = copy.deepcopy(module, {id(x): x.detach().clone() for x in results}).cpu()
    except Exception as error:  # its __deepcopy__ may be anybody's
        why = one_line(error)
        raise ValueError(
            f"{type(module).__name__} cannot be copied ({why}), so nothing can be redrawn: give a function that "
            f"makes it (learner_for(…, fresh=…))"
        ) from error
    redrawn: list[nn.Module] = []

    def reset(layer: nn.Module) -> None:
        own = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
        if callable(own):
            own()
            redrawn.append(layer)

    with borrow_generators(seed_from(generator)):  # reset_parameters draws from torch's global generator
        fresh.apply(reset)
    names = names_by_parameter(fresh)
    before = dict(module.named_parameters())
    kinds: dict[nn.Parameter, set[type]] = {}
    for layer in redrawn:
        for p in layer.parameters(recurse=False):
            kinds.setdefault(p, set()).add(type(layer))
    return {
        names[p]: p.detach()
        for p, of in kinds.items()
        # whose distribution is it, if an embedding and a linear layer are tied?
        if len(of) == 1 and (is_constant(p) or not torch.equal(p, before[names[p]].detach().cpu()))
    }


def redraw_by(make: Callable[[], nn.Module], generator: torch.Generator | None = None) -> dict[str, Tensor]:
    """Return the parameters of a new network of `make`, on the CPU, by name. Draws are as in `redraw`."""
    with borrow_generators(seed_from(generator)):
        fresh = make()
    return {name: p.detach().cpu() for name, p in fresh.named_parameters()}


def find_equal(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the values that two draws have in common although they are not constant.

    A constant, such as the zeros of a bias, is a rule of initialisation. Other equal values were not drawn."""
    return [n for n, value in first.items() if torch.equal(value, second[n].to(value)) and not is_constant(value)]


def is_constant(values: Tensor) -> bool:
    """Return whether all entries of a tensor are equal."""
    return values.numel() < 2 or bool((values == values.flatten()[0]).all())


def may_be_alike(drawn: Tensor, initial: Tensor) -> bool:
    """Return whether the distribution of new values can be that of the values at step 0.

    It cannot if the network gives its layers an initialisation of its own: if all values at step 0 are equal, or if the
    mean squares differ by more than sampling explains.
    """
    count = initial.numel()
    if count == 1:
        return float(initial) not in (0.0, 1.0)  # no draw of a distribution is
    if is_constant(initial):
        return False
    new, old = (values.detach().double().cpu() for values in (drawn, initial))
    if int((old == 0).sum()) > 1 + 2 * int((new == 0).sum()):  # somebody set a part of it to zero
        return False
    size, of_old = new.square().mean(), old.square().mean()
    # a uniform distribution, PyTorch's usual one, has a bound: ten of `count` draws lie in the outermost 10/count of it
    if (
        count > 20
        and new.pow(4).mean() < UNIFORM * size.square()
        and old.abs().max() * (1 - 10 / count) > new.abs().max()
    ):
        return False
    # six standard deviations of a ratio of mean squares of normal numbers; of few numbers, those of its logarithm
    bound = max(LARGEST, 12 / count**0.5)
    if bound < 1 or initial.ndim < 2:  # single biases of few may be anything
        return bool((size - of_old).abs() <= bound * torch.maximum(size, of_old))
    return bool((size / of_old).log().abs() <= bound)


def seed_from(generator: torch.Generator | None) -> int:
    """Return a seed drawn from a generator (default: torch's global CPU generator), which advances by one number."""
    device = "cpu" if generator is None else generator.device
    return int(torch.randint(2**62, (), generator=generator, device=device))


@contextmanager
def borrow_generators(seed: int) -> Iterator[None]:
    """Seed the global generators of PyTorch (CPU), NumPy and Python, and give them back as they were."""
    with keep_generators():
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        random.seed(seed)
        yield
