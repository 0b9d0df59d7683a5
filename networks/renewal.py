"""Running statistics of batch normalisation, renewed after the weights before it were rewritten."""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from .batch_norm import BatchNorm
from .forward import runner
from .learner import Learner
from .modules import BATCH_NORM
from .ranks import average
from .unchanged import unchanged


@torch.no_grad()
def renew_statistics_(learner: Learner, module: nn.Module | None = None) -> list[str]:
    """Let batch normalisation have the means and variances of the learner's recent inputs as its running statistics.

    The averages of training belong to the weights of before, until updates have moved them. One forward pass in
    evaluation mode renews all layers, each on what the renewed ones before it return. Nothing else changes. The means
    are over all rows (and positions), in a stack by member, and over all processes; variances are unbiased.

    Args:
        learner: The learner, of which the probe has 2 rows or more.
        module: Its network, by default, or one of its followers.

    Returns:
        The names of the buffers that were written: none if there is no such layer, or no data yet.
    """
    module = learner.module if module is None else module
    layers = {
        name: part
        for name, part in module.named_modules()
        if isinstance(part, BATCH_NORM) and part.running_mean is not None
    }

    def renew(layer: Any, inputs: tuple[Tensor, ...]) -> None:
        (x,) = inputs
        axes = [-2] if isinstance(layer, BatchNorm) else [axis for axis in range(x.ndim) if axis != 1]
        mean, square = average([x.double().mean(axes), x.double().square().mean(axes)])
        rows = x.numel() // mean.numel()  # members of a stack may share them
        layer.running_mean.copy_(mean)
        layer.running_var.copy_((square - mean.square()) * rows / (rows - 1))

    if (probe := learner.probe()) is None:
        return []
    with unchanged(module), ExitStack() as hooks:
        for part in layers.values():
            hooks.enter_context(part.register_forward_pre_hook(renew))
        runner(module, learner.forward)(*probe)
        found = {
            f"{name}.{buffer}": part.get_buffer(buffer).clone()
            for name, part in layers.items()
            for buffer in ("running_mean", "running_var")
        }
    module.load_state_dict(found, strict=False)
    return list(found)
