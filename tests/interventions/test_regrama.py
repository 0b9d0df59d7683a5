"""ReGraMa: units are chosen by the gradients of their incoming weights, and reinitialised."""

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, make, snapshot
from supple.metrics import measure
from supple.metrics.view import View
from tests.interventions.common import X, changed, exact
from tests.interventions.common import learner as learner_of


def learner(unit: type[nn.Module] = nn.ReLU) -> Learner:
    return learner_of(lambda: nn.Sequential(nn.Linear(4, 6), unit(), nn.Linear(6, 5), unit(), nn.Linear(5, 4)).double())


def scores(target: Learner, layer: int) -> Tensor:
    (gradient,) = torch.autograd.grad(target.loss(), target.module[layer].weight)
    return gradient.abs().mean(1) / gradient.abs().mean()


@pytest.mark.parametrize("outgoing", ["kept", "zero"])
@pytest.mark.parametrize("tau", [0.0, 0.3, 0.8])
def test_units_with_a_score_of_at_most_tau_are_reinitialised(tau, outgoing):
    target = learner()
    with torch.no_grad():
        target.module[4].weight[:, 2] = 0  # unit 2 of the second layer is active, and nothing comes back to it
    small = {0: scores(target, 0) <= tau, 2: scores(target, 2) <= tau}
    assert small[2][2]
    before = snapshot(target.module)
    assert make("regrama", tau=tau, outgoing=outgoing).apply(target)
    after = snapshot(target.module)
    for place, units in small.items():
        assert not after[f"{place}.bias"][units].any()
        assert outgoing == "kept" or not after[f"{place + 2}.weight"][:, units].any()
        assert (after[f"{place}.weight"][units] != before[f"{place}.weight"][units]).all()
        exact(after[f"{place}.bias"][~units], before[f"{place}.bias"][~units])


def test_outgoing_weights_are_kept_unless_outgoing_is_zero():
    target = learner()
    with torch.no_grad():
        target.module[4].weight[:, 2] = 0
        target.module[4].weight[0, 2] = 1e-9  # nearly no gradient, so that unit 2 is chosen and its weight can be seen
    before = snapshot(target.module)
    assert make("regrama").apply(target) == ["2.weight", "2.bias"]
    assert changed(target.module, before) == {"2.weight", "2.bias"}
    make("regrama", outgoing="zero").apply(target)
    assert not target.module[4].weight[:, 2].any()


@pytest.mark.parametrize("outgoing", ["kept", "zero"])
def test_a_network_without_any_gradient_learns_again_unless_outgoing_weights_become_0(outgoing):
    target = learner()
    for layer in (0, 2):
        nn.init.constant_(target.module[layer].bias, -1e3)  # every unit is dead
    for _ in range(3):
        make("regrama", outgoing=outgoing).apply(target)
    target.loss().backward()
    assert bool(target.module[2].weight.grad.any()) == (outgoing == "kept")


def test_it_finds_as_many_units_as_the_metric_counts():
    target = learner()
    with torch.no_grad():
        target.module[4].weight[:, 1:3] = 0
    fraction = measure(View(target))["small_gradient_fraction"]
    masks = make("regrama", tau=0.01).choose(target, (X,))
    assert sum(int(mask.sum()) for mask in masks.values()) == pytest.approx(11 * fraction)
    assert fraction >= 2 / 11


def test_if_every_unit_learns_nothing_is_reset():
    target = learner(nn.Tanh)
    before = snapshot(target.module)
    assert make("regrama", tau=0.0).apply(target) == []
    assert not changed(target.module, before)
