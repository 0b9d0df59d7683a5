import copy

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Units, learner_for, make, recycle_, redraw, snapshot, trace_wiring, unit_names
from tests.interventions.common import learner, refused, update


def build_with_norms() -> nn.Sequential:
    """Convolution → norm → units → pooling → linear → norm → units → linear, trained a little."""
    target = learner(
        lambda: nn.Sequential(
            nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), Units("prelu(granularity=neuron)")(5, axis=-3), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(20, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 2),
        ),
        torch.optim.Adam,
        torch.randn(16, 1, 6, 6),
    )  # fmt: skip
    update(target, count=5)
    return target.module


def recycle(module: nn.Module, masks: dict[str, list[bool]]) -> dict[str, Tensor]:
    wiring, _ = trace_wiring(module, unit_names(module))
    fresh = {**snapshot(module), **redraw(module)} | {
        name: torch.full_like(p, 0.25) for name, p in module.named_parameters() if name == "2.weight"
    }
    return recycle_(module, {unit: torch.tensor(mask) for unit, mask in masks.items()}, wiring, fresh)


# -- rewriting -----------------------------------------------------------------------------------------------


def test_norm_and_slope_of_a_recycled_unit_return_to_their_start_and_those_of_others_are_kept():
    module, first, second = build_with_norms(), [True, False, False, True, False], [False] * 5 + [True]
    before = snapshot(module)
    written = recycle(module, {"2": first, "7": second})
    for mask, starts in (
        (first, {"1.weight": 1, "1.bias": 0, "1.running_mean": 0, "1.running_var": 1, "2.weight": 0.25}),
        (second, {"6.weight": 1, "6.bias": 0}),
    ):
        chosen = torch.tensor(mask)
        for name, start in starts.items():
            value = module.state_dict()[name]
            assert before[name].ne(start).any(), name
            assert value[chosen].eq(start).all(), name
            assert torch.equal(value[~chosen], before[name][~chosen]), name
            assert name in written or "running" in name


@pytest.mark.parametrize("training", [False, True])
def test_recycling_a_unit_that_is_always_0_changes_no_output(training):
    module, x = build_with_norms().train(training), torch.randn(16, 1, 6, 6)
    with torch.no_grad():
        module[1].weight[2] = module[1].bias[2] = 0  # the norm's gain has died
    before = copy.deepcopy(module)(x)
    recycle(module, {"2": [False, False, True, False, False]})
    assert not module[5].weight[:, 8:12].any()
    torch.testing.assert_close(module(x), before)


def test_a_slope_that_a_whole_layer_shares_is_kept():
    module = nn.Sequential(nn.Linear(3, 4), Units("prelu")(4), nn.Linear(4, 2))
    assert list(recycle(module, {"1": [True] * 4})) == ["0.weight", "0.bias", "2.weight"]


# -- which units ---------------------------------------------------------------------------------------------


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
def test_units_with_shared_weights_are_kept_and_reports_and_refusals_say_so(name, params):
    one, intervention = learner(Block, x=torch.randn(8, 4)), make(name, **params)
    module = one.module
    with torch.no_grad():
        module.wide.bias[1] = module.narrow.bias[2] = -100.0
    before = snapshot(module)
    intervention.attach(one)
    assert intervention.contract(one)["weights"].endswith("(private units alone: 1 of 2 modules)")
    for _ in range(4):
        intervention.apply(one) if intervention.has("apply") else intervention.after_update(one)
    assert not torch.equal(module.wide.weight, before["wide.weight"])
    assert torch.equal(module.head.weight, before["head.weight"])
    assert module.narrow.bias[2] < -50
    with refused(f"^{name}: 'model' has no private units: 'outer' has no private incoming weights: .*'add'$"):
        intervention.attach(learner_for(module, units=("outer",)))
