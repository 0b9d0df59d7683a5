"""A fresh draw of a module's initial parameters."""

import copy

import torch
from torch import Tensor, nn


def redraw(module: nn.Module, generator: torch.Generator | None = None) -> dict[str, Tensor]:
    """Return new initial values, on the CPU, for every layer that has `reset_parameters`, by qualified name.

    The module does not change. Draws come from `generator` (default: torch's global CPU generator), which advances by
    one number; no other generator changes. Layers are reset in the order of their definition, and a part with its own
    `reset_parameters` after the layers in it. Networks with another initialisation set `Learner.redraw` instead.
    """
    device = "cpu" if generator is None else generator.device
    seed = int(torch.randint(2**62, (), generator=generator, device=device))
    fresh = copy.deepcopy(module).cpu()
    redrawn: list[nn.Module] = []

    def reset(layer: nn.Module) -> None:
        if callable(reset_parameters := getattr(layer, "reset_parameters", None)):
            reset_parameters()
            redrawn.append(layer)

    # reset_parameters draws from torch's global generator: borrow it, and give it back as it was.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        fresh.apply(reset)
    names = {parameter: name for name, parameter in fresh.named_parameters()}
    return {names[p]: p.detach() for layer in redrawn for p in layer.parameters(recurse=False)}
