"""Centred RMSprop equals PyTorch's, and a step of a stack is that of each member alone."""

import torch
from torch import nn

from supple.networks import CentredRMSprop
from supple.networks.optimizers import step

CONSTANTS = {"lr": 0.01, "alpha": 0.9, "eps": 0.1, "weight_decay": 0.1, "momentum": 0.5}


def parameters(*leading: int) -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(*leading, *shape)) for shape in ((8, 4, 2, 2), (8,), (3, 5))]


def learn(optimizer: torch.optim.Optimizer, own: list[nn.Parameter], *place: int) -> None:
    draws = torch.Generator().manual_seed(1)
    for _ in range(20):
        for parameter in own:
            shape = parameter.shape if not place else (3, *parameter.shape)
            parameter.grad = torch.randn(shape, generator=draws)[place]
        step(optimizer)


def test_it_is_that_of_pytorch_bit_for_bit() -> None:
    ours, theirs = parameters(), parameters()
    ours[0].data = ours[0].data.contiguous(memory_format=torch.channels_last)
    learn(CentredRMSprop(ours, **CONSTANTS), ours)
    learn(torch.optim.RMSprop(theirs, centered=True, **CONSTANTS), theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)


def test_a_member_of_a_stack_learns_as_alone_bit_for_bit() -> None:
    stack = parameters(3)
    alone = [[nn.Parameter(parameter.detach()[member].clone()) for parameter in stack] for member in range(3)]
    learn(CentredRMSprop(stack, **CONSTANTS, stacked=True), stack)
    for member, own in enumerate(alone):
        learn(CentredRMSprop(own, **CONSTANTS), own, member)
        for together, parameter in zip(stack, own, strict=True):
            assert torch.equal(together[member], parameter)


def test_a_constant_gradient_leaves_finite_parameters() -> None:
    """Its squares less the square of its mean are rounded below 0, where PyTorch's root is no number."""
    (parameter,) = own = [nn.Parameter(torch.zeros(1000))]
    optimizer = CentredRMSprop(own, 0.01, momentum=0.0)
    gradient = torch.linspace(-1, 1, 1000)
    for _ in range(400):
        parameter.grad = gradient.clone()
        step(optimizer)
    assert bool(parameter.isfinite().all())
    slots = optimizer.state[parameter]
    assert bool((slots["square_avg"] - slots["grad_avg"].square() < 0).any())
