"""Hidden units are looked at in one pass that leaves the network as it was."""

import pytest
import torch
from torch import Tensor, nn

from supple.networks import Learner, StackedConv2d, StackedLinear, learner_for
from supple.networks.hidden_units import hidden_units, observe


def learner(module: nn.Module, x: Tensor) -> Learner:
    return learner_for(module, probe=lambda: (x,), loss=lambda: module(x).mean())


def mean_of(rows: Tensor) -> Tensor:
    return rows.mean(-2)


@pytest.mark.parametrize("flatten_first", [False, True])
def test_channels_are_averaged_over_samples_and_places(flatten_first):
    torch.manual_seed(0)
    between = [nn.Flatten(), nn.ReLU()] if flatten_first else [nn.ReLU(), nn.Flatten()]
    module, x = nn.Sequential(nn.Conv2d(1, 3, 3), *between, nn.Linear(48, 2)), torch.randn(5, 1, 6, 6)
    one = learner(module, x)
    seen = observe(one, hidden_units(one, "it"), (x,), mean_of)
    torch.testing.assert_close(list(seen.values()), [module[0](x).relu().mean((0, 2, 3))])


def test_units_of_a_stack_are_looked_at_member_by_member():
    torch.manual_seed(0)
    module = nn.Sequential(
        StackedConv2d(2, 1, 3, 3), nn.ReLU(), nn.Flatten(2), StackedLinear(2, 48, 4), nn.Tanh(), StackedLinear(2, 4, 1)
    )
    x = torch.randn(2, 5, 1, 6, 6)
    one = learner(module, x)
    seen = observe(one, hidden_units(one, "it"), (x,), mean_of)
    torch.testing.assert_close(seen["1"], module[0](x).relu().mean((1, 3, 4)))
    torch.testing.assert_close(seen["4"], module[:5](x).mean(1))
