"""ReGraMa: units are chosen by the gradients of their incoming weights, and reinitialised."""

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, learner_for, make
from supple.metrics import measure
from supple.metrics.view import View

X, Y = torch.randn(2, 32, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def learner(unit: type[nn.Module] = nn.ReLU) -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), unit(), nn.Linear(6, 5), unit(), nn.Linear(5, 4)).double()
    optimizer = torch.optim.Adam(module.parameters())
    return learner_for(module, optimizer, probe=lambda: (X,), loss=lambda: (module(X) - Y).square().mean())


def scores(target: Learner, layer: int) -> Tensor:
    target.module.zero_grad()
    target.loss().backward()
    gradient = target.module[layer].weight.grad.abs().mean(1)
    target.module.zero_grad()
    return gradient / gradient.mean()


@pytest.mark.parametrize("outgoing", ["kept", "zero"])
@pytest.mark.parametrize("tau", [0.0, 0.3, 0.8])
def test_units_with_a_score_of_at_most_tau_are_reinitialised(tau: float, outgoing: str) -> None:
    target = learner()
    with torch.no_grad():
        target.module[4].weight[:, 2] = 0  # unit 2 of the second layer is active, and nothing comes back to it
    small = {"1": scores(target, 0) <= tau, "3": scores(target, 2) <= tau}
    assert small["3"][2]
    before = [p.detach().clone() for p in target.module.parameters()]
    written = make("regrama", tau=tau, outgoing=outgoing).apply(target)
    after = list(target.module.parameters())
    assert written
    for unit, place in (("1", 0), ("3", 2)):
        incoming, bias = after[place], after[place + 1]
        assert not bias[small[unit]].any()
        if outgoing == "zero":
            assert not after[place + 2][:, small[unit]].any()
        assert (incoming[small[unit]] != before[place][small[unit]]).all()
        torch.testing.assert_close(bias[~small[unit]], before[place + 1][~small[unit]], rtol=0, atol=0)


def test_outgoing_weights_are_kept_unless_outgoing_is_zero() -> None:
    target = learner()
    with torch.no_grad():
        target.module[4].weight[:, 2] = 0
        target.module[4].weight[0, 2] = 1e-9  # nearly no gradient, so that unit 2 is chosen and its weight can be seen
    before = target.module[4].weight.detach().clone()
    assert make("regrama").apply(target) == ["2.weight", "2.bias"]
    assert torch.equal(target.module[4].weight, before)
    make("regrama", outgoing="zero").apply(target)
    assert not target.module[4].weight[:, 2].any()


def test_a_network_without_any_gradient_learns_again_unless_outgoing_weights_become_0() -> None:
    trained = {}
    for outgoing in ("kept", "zero"):
        target = learner()
        with torch.no_grad():
            for bias in (target.module[0].bias, target.module[2].bias):
                bias.fill_(-1e3)  # every unit is dead
        for _ in range(3):
            make("regrama", outgoing=outgoing).apply(target)
        target.module.zero_grad()
        target.loss().backward()
        trained[outgoing] = bool(target.module[2].weight.grad.any())
    assert trained == {"kept": True, "zero": False}


def test_it_finds_as_many_units_as_the_metric_counts() -> None:
    target = learner()
    with torch.no_grad():
        target.module[4].weight[:, 1:3] = 0
    fraction = measure(View(target))["small_gradient_fraction"]
    masks = make("regrama", tau=0.01).choose(target, (X,))
    assert sum(int(mask.sum()) for mask in masks.values()) == pytest.approx(11 * fraction)
    assert fraction >= 2 / 11


def test_if_every_unit_learns_nothing_is_reset() -> None:
    target = learner(nn.Tanh)
    before = [p.detach().clone() for p in target.module.parameters()]
    assert make("regrama", tau=0.0).apply(target) == []
    assert all(torch.equal(old, new) for old, new in zip(before, target.module.parameters(), strict=True))


def test_without_data_it_raises_an_error() -> None:
    target = learner()
    target.probe = lambda: None
    with pytest.raises(ValueError, match="regrama needs recent inputs, but 'model' has none"):
        make("regrama").apply(target)
