import numpy as np
import pytest
import torch
from torch import nn

from supple.interventions import Learner, StackedLinear, learner_for, make


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2)).double()
    return learner_for(module, torch.optim.SGD(module.parameters(), lr=0.1))


@pytest.mark.slow
def test_1000_updates_equal_the_formulas() -> None:
    target, wasserstein = learner(), make("wasserstein", strength=0.02)
    source = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 16, 4, generator=source, dtype=torch.float64)
    values = {name: p.detach().numpy().copy() for name, p in target.module.named_parameters()}
    start = {name: np.sort(value, axis=None) for name, value in values.items()}
    for _ in range(1000):
        target.optimizer.zero_grad()
        (target.module(x) - y[:, :2]).square().mean().backward()
        plain = {name: p.grad.numpy().copy() for name, p in target.module.named_parameters()}
        wasserstein.penalty(target).backward()
        target.optimizer.step()
        for name, value in values.items():
            wanted = np.empty(value.size)
            wanted[np.argsort(value, axis=None, kind="stable")] = start[name]
            value -= 0.1 * (plain[name] + 0.02 * 2 * (value - wanted.reshape(value.shape)))
        for name, p in target.module.named_parameters():  # at the same place, so that orders cannot part by a rounding
            np.testing.assert_allclose(p.detach().numpy(), values[name], rtol=0, atol=1e-12)
            values[name] = p.detach().numpy().copy()


def test_it_is_the_squared_distance_of_sorted_entries() -> None:
    target = learner()
    with torch.no_grad():
        for parameter in target.module.parameters():
            parameter.add_(torch.randn_like(parameter))
    expected = sum(
        float((p.detach().flatten().sort().values - target.initial[name].flatten().sort().values).square().sum())
        for name, p in target.module.named_parameters()
    )
    assert float(make("wasserstein", strength=2.0).penalty(target)) == pytest.approx(2.0 * expected)


def test_entries_that_change_places_cost_nothing() -> None:
    target = learner()
    with torch.no_grad():
        for parameter in target.module.parameters():
            parameter.copy_(parameter.flatten()[torch.randperm(parameter.numel())].view_as(parameter))
    assert float(make("wasserstein").penalty(target)) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("members", [1, 2])
def test_long_and_short_rows_are_pulled_to_the_start_in_the_order_of_their_entries(
    dtype: torch.dtype, members: int
) -> None:
    """Many entries are equal: these keep their places."""
    torch.manual_seed(0)
    layers = [StackedLinear(members, *size) if members > 1 else nn.Linear(*size) for size in ((200, 200), (200, 3))]
    target = learner_for(nn.Sequential(layers[0], nn.Tanh(), layers[1]).to(dtype))
    with torch.no_grad():
        for parameter in target.module.parameters():
            parameter.copy_((parameter + 0.1 * torch.randn_like(parameter)).float().mul(50).round() + 0.0)
    make("wasserstein", strength=0.5).penalty(target).backward()
    for name, p in target.module.named_parameters():
        rows, start = (values.detach().reshape(members, -1) for values in (p, target.initial[name]))
        order = rows.argsort(stable=True)
        wanted = torch.empty_like(rows).scatter_(1, order, start.sort().values)
        assert p.grad is not None
        torch.testing.assert_close(p.grad.reshape(members, -1), rows - wanted)
