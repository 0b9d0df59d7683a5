import copy

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import (
    Learner,
    Units,
    learner_for,
    make,
    recycle_,
    redraw,
    snapshot,
    trace_wiring,
    unit_names,
)


def build_with_norms() -> nn.Sequential:
    """Convolution → norm → units → pooling → linear → norm → units → linear, trained a little."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), Units("prelu(granularity=neuron)")(5, axis=-3), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(20, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 2),
    )  # fmt: skip
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    for _ in range(5):
        optimizer.zero_grad()
        (module(torch.randn(16, 1, 6, 6)) - 1).square().mean().backward()
        optimizer.step()
    return module


def recycle(module: nn.Module, masks: dict[str, list[bool]]) -> dict[str, Tensor]:
    wiring, _ = trace_wiring(module, unit_names(module))
    fresh = {**snapshot(module), **redraw(module)} | {
        name: torch.full_like(p, 0.25) for name, p in module.named_parameters() if name == "2.weight"
    }
    return recycle_(module, {unit: torch.tensor(mask) for unit, mask in masks.items()}, wiring, fresh)


# -- rewriting -----------------------------------------------------------------------------------------------


def test_norm_and_slope_of_a_recycled_unit_return_to_their_start_and_those_of_others_are_kept():
    module, mask = build_with_norms(), [True, False, False, True, False]
    before = copy.deepcopy(module.state_dict())
    assert all((before[f"1.{name}"] != start).all() for name, start in [("weight", 1), ("bias", 0)])
    written = recycle(module, {"2": mask, "7": [False] * 5 + [True]})
    starts = {"1.weight": 1, "1.bias": 0, "1.running_mean": 0, "1.running_var": 1, "2.weight": 0.25}
    for name, start in starts.items():
        value, chosen = module.state_dict()[name], torch.tensor(mask)
        assert value[chosen].eq(start).all(), name
        assert torch.equal(value[~chosen], before[name][~chosen]), name
    assert (module[6].weight[5], module[6].bias[5]) == (1, 0)
    assert torch.equal(module[6].weight[:5], before["6.weight"][:5])
    assert {"1.weight", "1.bias", "2.weight", "6.weight", "6.bias"} <= set(written)


@pytest.mark.parametrize("training", [False, True])
def test_recycling_a_unit_that_is_always_0_changes_no_output(training):
    module = build_with_norms().train(training)
    x = torch.randn(16, 1, 6, 6)
    with torch.no_grad():
        for name in ("weight", "bias"):
            getattr(module[1], name)[2] = 0  # the norm's gain has died
    before = copy.deepcopy(module)(x)
    recycle(module, {"2": [False, False, True, False, False]})
    assert module[5].weight[:, 8:12].eq(0).all()
    torch.testing.assert_close(module(x), before)


def test_a_slope_that_a_whole_layer_shares_is_kept():
    module = nn.Sequential(nn.Linear(3, 4), Units("prelu")(4), nn.Linear(4, 2))
    assert list(recycle(module, {"1": [True] * 4})) == ["0.weight", "0.bias", "2.weight"]


# -- which units ---------------------------------------------------------------------------------------------


def learner(module: nn.Module, x: Tensor) -> Learner:
    return learner_for(module, probe=lambda: (x,), loss=lambda: module(x).mean())


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.inner, self.narrow, self.outer = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU()
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.outer(self.narrow(self.inner(self.wide(x))) + x))


INTERVENTIONS = [
    ("redo", {"tau": 0.0}),
    ("cbp", {"replacement_rate": 0.5, "maturity": 0}),
    ("snr", {"window": 1, "eta": 0.5}),
]


@pytest.mark.parametrize(("name", "params"), INTERVENTIONS)
def test_units_with_shared_weights_are_kept_and_reports_say_so(name, params):
    module, x = Block(), torch.randn(8, 4)
    with torch.no_grad():
        module.wide.bias[1] = module.narrow.bias[2] = -100.0
    one, before = learner(module, x), snapshot(module)
    intervention = make(name, **params)
    intervention.attach(one)
    assert intervention.contract(one)["weights"].endswith("(private units alone: 1 of 2 modules)")
    for _ in range(4):
        intervention.apply(one) if intervention.has("apply") else intervention.after_update(one)
    after = snapshot(module)
    assert not torch.equal(after["wide.weight"], before["wide.weight"])
    assert torch.equal(after["head.weight"], before["head.weight"])
    assert after["narrow.bias"][2] < -50


@pytest.mark.parametrize(("name", "params"), INTERVENTIONS)
def test_a_network_without_private_units_is_refused_with_the_reasons(name, params):
    module = Block()
    one = learner_for(module, units=("outer",))
    message = f"^{name}: 'model' has no private units: 'outer' has no private incoming weights: .* addition 'add'$"
    with pytest.raises(ValueError, match=message):
        make(name, **params).attach(one)
    slopes = nn.Sequential(nn.Linear(2, 2), slope := nn.PReLU(2), nn.Linear(2, 2), slope, nn.Linear(2, 2))
    many = learner_for(slopes, units=("1", "1#2"))
    with pytest.raises(ValueError, match="'1' shares the parameters of '1': it is used repeatedly"):
        make(name, **params).attach(many)
    with pytest.raises(ValueError, match="'model' has no hidden units"):
        make(name, **params).attach(learner_for(nn.Sequential(nn.Linear(2, 2))))


def test_norms_without_one_gain_for_each_unit_are_refused():
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.LayerNorm(4), nn.ReLU(), nn.Conv2d(4, 1, 3))
    with pytest.raises(ValueError, match="'1', before '2', has not one gain and shift for each of the 4 units"):
        make("redo").attach(learner_for(module))
