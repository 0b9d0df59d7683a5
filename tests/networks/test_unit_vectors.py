import math

import pytest
import torch
from torch import nn

from supple.networks import stack_networks
from supple.networks.unit_vectors import (
    Scaler,
    UnitBatchNorm,
    UnitRMSNorm,
    normalize,
    project_,
    projected,
    rescale_,
    shift,
    unit_linear,
)

MAKERS = {
    "linear": lambda members: unit_linear(6, 4, members, nn.init.orthogonal_, bias=True),
    "batch norm": lambda members: UnitBatchNorm(6, members),
    "rms norm": lambda members: UnitRMSNorm(6, members),
    "scaler": lambda members: Scaler(6, 0.5, 2.0, members),
}
kinds = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def disturbed(module, seed=0):
    torch.manual_seed(seed)
    for parameter in module.parameters():
        parameter.data += torch.randn_like(parameter)
    return module


@kinds
@pytest.mark.parametrize("members", [0, 3])
def test_projection_gives_each_vector_its_length_and_keeps_its_direction(make, members):
    layer = disturbed(make(members))
    before = [parameter.clone() for parameter in layer.parameters()]
    project_([layer])
    after = list(layer.parameters())
    if isinstance(layer, Scaler):
        assert all(map(torch.equal, before, after))
        return
    if isinstance(layer, UnitBatchNorm):  # a gain and its shift are one vector
        after, before = ([torch.cat(tuple(each), -1)] for each in (after, before))
    length = 1.0 if after[0].ndim > 1 + bool(members) else math.sqrt(6)
    torch.testing.assert_close(after[0].norm(dim=-1), torch.full(after[0].shape[:-1], length))
    torch.testing.assert_close(normalize(after[0]), normalize(before[0]))
    assert len(after) == 1 or torch.equal(after[1], before[1])  # a bias is free


@kinds
def test_a_member_of_a_stack_is_as_alone(make):
    alone = [disturbed(make(0), seed).double() for seed in range(3)]
    stack, x = stack_networks(alone, lambda members: make(members).double()), torch.randn(3, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(stack(x), torch.stack([layer(x[member]) for member, layer in enumerate(alone)]))
    project_([stack, *alone])
    for name, value in stack.state_dict().items():
        torch.testing.assert_close(value, torch.stack([layer.state_dict()[name] for layer in alone]))


def test_rows_have_length_one_from_the_start_and_frozen_layers_are_left_alone():
    network = nn.Sequential(*(unit_linear(4, 7, members, nn.init.orthogonal_) for members in (0, 2)), nn.Linear(2, 2))
    for layer in network[:2]:
        assert layer.bias is None
        torch.testing.assert_close(layer.weight.norm(dim=-1), torch.ones(layer.weight.shape[:-1]))
    network[0].requires_grad_(False)
    assert projected(network) == [network[1]]


def test_a_scaler_starts_at_its_first_factor_and_learns_by_init_over_scale():
    scaler, x = Scaler(3, init=0.2, scale=0.1), torch.randn(4, 3)
    torch.testing.assert_close(scaler(x), 0.2 * x)
    scaler.weight.data += 0.01  # a step of Adam
    torch.testing.assert_close(scaler(x), (0.2 + 0.01 * 2) * x)


def test_rms_norm_divides_by_the_root_mean_square():
    norm, x = disturbed(UnitRMSNorm(6)), torch.randn(5, 6)
    torch.testing.assert_close(norm(x), x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight)


def test_a_shift_keeps_the_length_of_a_vector_as_an_angle():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    torch.testing.assert_close(shift(x, 12.0), torch.tensor([[3.0, 4.0, 12.0], [0.0, 0.0, 12.0]]))
    torch.testing.assert_close(normalize(shift(x, 12.0))[0], torch.tensor([3.0, 4.0, 12.0]) / 13)
    assert normalize(torch.zeros(2)).eq(0).all()


def test_vectors_may_lie_along_any_axes_and_lengths_differ():
    weight = torch.randn(2, 3, 4)
    rescale_([weight], torch.tensor([1.0, 5.0]).view(2, 1, 1), (1, 2))
    torch.testing.assert_close(weight.flatten(1).norm(dim=1), torch.tensor([1.0, 5.0]))
