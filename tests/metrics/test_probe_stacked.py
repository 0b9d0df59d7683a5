"""A stack measures as its members do, each as a network of its own."""

import math
from functools import partial
from statistics import fmean

import pytest
import torch
from torch import nn

from supple.experiments.hooks import HookDriver
from supple.interventions import Learner, StackedLinear, learner_for, parse_hook
from supple.metrics import METRICS, View, dfi_unscaled, feature_covariance_distance, measure

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))


def network(members: int = 0) -> nn.Sequential:
    linear = partial(StackedLinear, members) if members else nn.Linear
    return nn.Sequential(linear(3, 9), nn.ReLU(), linear(9, 6), nn.ReLU(), linear(6, 1))


def learner(module: nn.Module) -> Learner:
    def loss() -> torch.Tensor:
        return (module(X) - 1).square().mean((-2, -1)).sum()

    return learner_for(module, probe=lambda: (X,), loss=loss)


def stack_and_members(seed: int = 0) -> tuple[Learner, list[Learner]]:
    """Members of different scale; of the first, some units are dead and its rank is low."""
    torch.manual_seed(seed)
    stack = network(2)
    with torch.no_grad():
        stack[0].bias[0, :4] = -100.0
        stack[2].bias[0, :2] = -100.0
        for layer in (stack[0], stack[2]):
            layer.weight[1].mul_(7.0)
    members = []
    for i in range(2):
        member = network()
        member.load_state_dict({name: value[i] for name, value in stack.state_dict().items()})
        members.append(learner(member))
    return learner(stack), members


def root_of_squares(values: list[float]) -> float:
    return math.sqrt(sum(value**2 for value in values))


COMBINED = {
    "dfi": sum,
    "dfi_per_dim": fmean,
    "dfi_unscaled": fmean,
    "weight_norm": root_of_squares,
    "gradient_norm": root_of_squares,
    "dormant_fraction": fmean,
    "dormant_fraction/1": fmean,
    "dormant_fraction/3": fmean,
    "srank": fmean,
    "effective_rank": fmean,
}


@pytest.mark.parametrize("seed", range(3))
def test_a_stack_of_two_measures_as_the_two_combined(seed):
    stack, members = stack_and_members(seed)
    values, apart = measure(stack, per_layer=True), [measure(member, per_layer=True) for member in members]
    assert set(COMBINED) == set(values) == {*METRICS, "dormant_fraction/1", "dormant_fraction/3"}
    for name, combine in COMBINED.items():
        assert values[name] == pytest.approx(combine([one[name] for one in apart]), rel=1e-5), name
    assert apart[0]["dormant_fraction"] > 0.3
    assert apart[0]["srank"] != apart[1]["srank"]  # so that a mean is seen to be one


def test_a_quiet_member_is_not_dormant_beside_a_loud_one():
    stack, _ = stack_and_members()
    with torch.no_grad():
        for parameter in stack.module[0].parameters():
            parameter[0] = parameter[1] * 1e-6
    shares = [float((h.abs().mean(0) == 0).double().mean()) for h in View(stack).units["1"]]
    assert measure(stack, per_layer=True)["dormant_fraction/1"] == fmean(shares) < 0.5


def test_an_exact_fire_leaves_no_deviation_from_isometry_in_any_member():
    stack, _ = stack_and_members()
    (hook,) = [parse_hook("fire(method=polar)@10")]
    events: list[dict] = []
    features = View(stack).features
    HookDriver([hook], {"critic": stack}, lambda **event: events.append(event), total=20).passed(0, 10)
    assert max(dfi_unscaled(weight) for layer in stack.layers for weight in layer.weights) < 1e-9
    assert events[0]["after"]["dfi_unscaled"] < 1e-9 < events[0]["before"]["dfi_unscaled"]
    turned = [feature_covariance_distance(a, b) for a, b in zip(features, View(stack).features, strict=True)]
    assert len(turned) == 2
    assert events[0]["change"]["feature_covariance_distance"] == pytest.approx(fmean(turned))
