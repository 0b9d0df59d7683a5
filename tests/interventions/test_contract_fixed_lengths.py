"""Interventions on layers whose weight vectors keep their length: SimBaV2's rows, FlashSAC's gains, and scalers."""

import copy
import math

import pytest
import torch
from torch import nn

from supple.interventions import Learner, ReleasedCode, make, parse_call, snapshot
from supple.networks.unit_vectors import Scaler, UnitBatchNorm, project_, unit_linear
from tests.interventions.common import changed, learner, slots, update

LENGTHS = {"0.weight": 1.0, "1.weight": math.sqrt(8), "3.weight": 1.0, "6.weight": 1.0}


def network() -> nn.Module:
    draw = nn.init.orthogonal_
    return nn.Sequential(
        unit_linear(4, 8, 0, draw), UnitBatchNorm(8), nn.ReLU(),
        unit_linear(8, 32, 0, draw), Scaler(32), nn.ReLU(), unit_linear(32, 4, 0, draw, bias=True),
    ).double()  # fmt: skip


def trained() -> Learner:
    """Return a learner after updates, with a lagging target."""
    target = learner(network, torch.optim.Adam)
    target.followers = (copy.deepcopy(target.module).requires_grad_(False),)
    target.capabilities, target.redraw = (ReleasedCode("dqn"),), lambda: snapshot(network())
    update(target, count=3)
    project_(target.module.modules())
    return target


def keep_lengths(module: nn.Module) -> bool:
    """Return whether all vectors have their length."""
    values = snapshot(module)
    values["1.weight"] = torch.cat([values["1.weight"], values["1.bias"]])  # a gain and its shift are one vector
    return all((values[name].norm(dim=-1) - length).abs().max() < 1e-6 for name, length in LENGTHS.items())


@pytest.mark.parametrize(
    "call",
    [
        *("fire", "fire(method=polar,scope=head)", "snp(noise=0.1)", "snp(toward=zero,lam=0.5)", "reset(toward=fresh)"),
        *("reset(what=head)", "redo(tau=0.9)", "regrama(tau=0.9)", "hare_tortoise", "nap(normalize=false)"),
    ],
)
def test_all_vectors_have_their_length_afterwards_in_the_network_and_in_its_target(call: str) -> None:
    target, parsed = trained(), parse_call(call)
    intervention = make(parsed.name, **parsed.params)
    intervention.attach(target)
    if call == "hare_tortoise":
        intervention.after_update(target)
    row = intervention.contract(target)
    assert row["weights of fixed length"] == "projected to their length afterwards"
    before = snapshot(target.module)
    written = intervention.apply(target)
    assert changed(target.module, before) & {name for name, _ in target.module.named_parameters()} <= {*written}
    assert keep_lengths(target.module)
    assert not changed(target.followers[0], snapshot(target.module))
    states = slots(target)
    assert not any(states[name]["exp_avg"].any() for name in written if parsed.name not in ("redo", "regrama"))


def test_where_the_target_undergoes_the_same_operation_it_is_projected_as_well() -> None:
    target = trained()
    make("reset", contract="as_released", toward="fresh").apply(target)
    assert keep_lengths(target.followers[0])


def test_fire_ends_at_unit_rows_that_are_nearly_an_isometry() -> None:
    target = trained()
    make("fire", method="polar").apply(target)
    for name, (d_out, d_in) in {"0": (8, 4), "3": (32, 8), "6": (4, 32)}.items():
        sigma = torch.linalg.svdvals(target.module[int(name)].weight.detach())
        # of fewer rows than columns the polar factor has unit rows; otherwise the projection changes it a little
        wanted, within = math.sqrt(max(d_out / d_in, 1)), 1e-4 if d_out <= d_in else 0.25
        assert (sigma / wanted - 1).abs().max() < within


def test_scalers_are_gains() -> None:
    target = trained()
    before = snapshot(target.module)
    make("fire").apply(target)
    assert torch.equal(target.module[4].weight, before["4.weight"])
    make("reset").apply(target)
    assert torch.equal(target.module[4].weight, target.initial["4.weight"])
    make("redo", tau=0.9).attach(target)  # its units are those behind it
    assert target.wiring["5"].norms == ("4",)
