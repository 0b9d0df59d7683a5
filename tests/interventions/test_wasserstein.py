import numpy as np
import pytest
import torch
from torch import nn

from supple.interventions import StackedLinear, learner_for, make, snapshot
from tests.interventions.common import disturb, learner, normed, update


@pytest.mark.slow
def test_200_updates_equal_the_formulas():
    target, wasserstein = learner(normed), make("wasserstein", strength=0.02)
    start = {name: np.sort(value.numpy(), axis=None) for name, value in target.initial.items()}
    for _ in range(200):  # each from the same place, so that orders cannot part by a rounding
        values = {name: value.numpy() for name, value in snapshot(target.module).items()}
        plain = dict(zip(values, torch.autograd.grad(target.loss(), list(target.module.parameters())), strict=True))
        update(target, wasserstein)
        for name, value in values.items():
            wanted = np.empty(value.size)
            wanted[np.argsort(value, axis=None, kind="stable")] = start[name]
            pull = 0.02 * 2 * (value - wanted.reshape(value.shape))
            now = target.module.get_parameter(name).detach().numpy()
            np.testing.assert_allclose(now, value - 0.05 * (plain[name].numpy() + pull), rtol=0, atol=1e-12)


def test_it_is_the_squared_distance_of_sorted_entries_so_that_a_change_of_places_costs_nothing():
    target = disturb(learner(normed))
    expected = sum(
        float((value.flatten().sort().values - target.initial[name].flatten().sort().values).square().sum())
        for name, value in snapshot(target.module).items()
    )
    assert float(make("wasserstein", strength=2.0).penalty(target)) == pytest.approx(2.0 * expected)
    with torch.no_grad():
        for name, parameter in target.module.named_parameters():
            parameter.copy_(target.initial[name].flatten()[torch.randperm(parameter.numel())].view_as(parameter))
    assert float(make("wasserstein").penalty(target)) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("members", [1, 2])
def test_long_and_short_rows_are_pulled_to_the_start_in_the_order_of_their_entries(dtype, members):
    """Many entries are equal: these keep their places."""
    torch.manual_seed(0)
    layers = [StackedLinear(members, *size) if members > 1 else nn.Linear(*size) for size in ((200, 200), (200, 3))]
    target = disturb(learner_for(nn.Sequential(layers[0], nn.Tanh(), layers[1]).to(dtype)), 0.1)
    with torch.no_grad():
        for parameter in target.module.parameters():
            parameter.copy_(parameter.float().mul(50).round() + 0.0)
    make("wasserstein", strength=0.5).penalty(target).backward()
    for name, p in target.module.named_parameters():
        rows, start = (values.detach().reshape(members, -1) for values in (p, target.initial[name]))
        wanted = torch.empty_like(rows).scatter_(1, rows.argsort(stable=True), start.sort().values)
        torch.testing.assert_close(p.grad.reshape(members, -1), rows - wanted)
