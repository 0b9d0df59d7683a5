"""A fresh draw of a module's initial parameters."""

import copy

import torch
from torch import Tensor, nn


def redraw(module: nn.Module, generator: torch.Generator | None = None) -> dict[str, Tensor]:
    """New initial values for every layer that has `reset_parameters`, by qualified name.

    The module is not touched. Draws come from `generator` (default: torch's global one, which advances by
    one number); networks with an initialisation of their own offer `Learner.redraw` instead.
    """
    seed = int(torch.randint(2**62, (), generator=generator))
    fresh = copy.deepcopy(module)
    drawn: dict[str, Tensor] = {}
    # reset_parameters draws from torch's global generator: borrow it, and give it back as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for prefix, layer in fresh.named_modules():
            reset = getattr(layer, "reset_parameters", None)
            if callable(reset):
                reset()
                dot = f"{prefix}." if prefix else ""
                drawn |= {f"{dot}{n}": p.detach() for n, p in layer.named_parameters(recurse=False)}
    return drawn
