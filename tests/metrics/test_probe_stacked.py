"""The metrics of a stack are those of its members, each as a network of its own."""

import math
from functools import partial
from statistics import fmean

import pytest
import torch
from torch import nn
from torch.distributions import Categorical

from supple.experiments import conformance_networks
from supple.interventions import Learner, StackedLinear, learner_for
from supple.metrics import (
    METRICS,
    View,
    dfi,
    dormant_fraction,
    measure,
    measure_members,
    srank,
    trainability,
    weight_norm,
)

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))


def network(members: int = 0) -> nn.Sequential:
    linear = partial(StackedLinear, members) if members else nn.Linear
    return nn.Sequential(linear(3, 9), nn.ReLU(), linear(9, 6), nn.ReLU(), linear(6, 3))


def learner(module: nn.Module) -> Learner:
    def errors() -> torch.Tensor:
        return (module(X) - 1).square().mean(-1)

    target = learner_for(
        module, probe=lambda: (X,), loss=lambda: errors().mean(-1).sum(), batches=lambda n: iter([errors()])
    )
    target.values = lambda outputs: outputs
    target.policy = lambda outputs, _: Categorical(logits=outputs, validate_args=False)
    target.marked = {name: p.detach().cos() for name, p in module.named_parameters()}
    return target


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


# How a stack's metrics follow from its members': as their mean, or so
COMBINED = {
    "dfi": sum,
    "weight_norm": root_of_squares,
    "gradient_norm": root_of_squares,
    "lambda_max": max,  # of a Hessian in blocks
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_stack_of_two_measures_as_the_two_combined(seed):
    stack, members = stack_and_members(seed)
    values = measure(stack, per_layer=True, costly=True)
    apart = [measure(member, per_layer=True, costly=True) for member in members]
    assert set(values) == {*METRICS, "dormant_fraction/1", "dormant_fraction/3"}
    for name, value in values.items():
        assert value == pytest.approx(COMBINED.get(name, fmean)([one[name] for one in apart]), rel=1e-5), name
    assert apart[0]["dormant_fraction"] > 0.3
    assert apart[0]["saturated_fraction"] > 0.3
    assert apart[0]["srank"] != apart[1]["srank"]  # so that a mean is seen to be one


@pytest.mark.slow
def test_every_member_measures_as_it_does_alone():
    stack, members = stack_and_members()
    everything = measure_members(stack, per_layer=True, costly=True)
    for i, alone in enumerate(members):
        expected = measure(alone, per_layer=True, costly=True)
        assert everything[i] == pytest.approx(expected, rel=1e-5)


def test_members_of_a_plain_network_are_refused():
    _, (alone, _) = stack_and_members()
    with pytest.raises(ValueError, match="'model' is no stack of networks"):
        measure_members(alone)


@pytest.mark.slow
def test_one_stacked_layer_in_a_plain_network_makes_no_stack():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 9), nn.ReLU(), StackedLinear(2, 9, 6), nn.ReLU(), StackedLinear(2, 6, 1))
    values = measure(learner(module), per_layer=True, costly=True)
    weights = [module[0].weight, *module[2].weight, *module[4].weight]
    assert values["dfi"] == pytest.approx(sum(map(dfi, weights)))
    first, second = nn.functional.relu(module[0](X)), module[3](module[2](module[0](X).relu()))
    assert values["dormant_fraction"] == pytest.approx(dormant_fraction([first, *second]))
    assert values["srank"] == fmean(map(srank, second))
    assert values["weight_norm"] == pytest.approx(weight_norm(module))


def stack_of_seeds(seeds: int, networks: int) -> tuple[Learner, list[Learner]]:
    """A stack of seeds with several networks each, and each seed alone, which is a stack of its networks."""
    torch.manual_seed(0)
    together = learner(network(seeds * networks))
    together.seeds, together.networks = seeds, networks
    apart = []
    for seed in range(seeds):
        alone = network(networks)
        rows = slice(seed * networks, (seed + 1) * networks)
        alone.load_state_dict({name: value[rows] for name, value in together.module.state_dict().items()})
        apart.append(learner(alone))
    return together, apart


@pytest.mark.parametrize("seeds", [(0, 1, 2), (0, 2)])
def test_seeds_of_a_stack_measure_as_their_runs_alone_without_a_look_at_the_others(seeds):
    stack, apart = stack_of_seeds(3, 2)
    with torch.no_grad():
        for parameter in stack.module.parameters():
            parameter.unflatten(0, (3, 2))[[seed for seed in range(3) if seed not in seeds]] = math.nan
    found = measure_members(View(stack, seeds=seeds), per_layer=True)
    for own, alone in zip(found, [apart[seed] for seed in seeds], strict=True):
        assert own == pytest.approx(measure(alone, per_layer=True), rel=1e-5)


@pytest.mark.parametrize("networks", [0, 2])
def test_the_trainability_of_a_seed_is_that_of_its_run_alone(networks):
    stack = conformance_networks.network(None, networks)
    together = trainability(stack, updates=3).numbers()
    for seed in range(3):
        alone = trainability(conformance_networks.network(seed, networks), updates=3).numbers()
        for name, values in together.items():
            assert float(stack.by_seed(values)[seed].mean()) == pytest.approx(float(alone[name].mean()), rel=1e-9)


CURVATURE = {"lambda_max"}
WEIGHTS = {"dfi", "dfi_per_dim", "dfi_unscaled", "weight_norm", "lambda_balance", "lambda_residual", "update_ratio"}
# State of a network → its parameters, and the metrics that are not finite there
STATES = {
    "dead": ({"0.bias": -1e3, "2.bias": -1e3}, set()),
    "saturated": ({"0.weight": 1e3, "4.bias": torch.tensor([0.0, 1e3, -1e3])}, set()),
    "constant features": ({"2.weight": 0.0, "2.bias": 1.0}, set()),
    "zero gradient": ({"4.weight": 0.0, "4.bias": 1.0}, set()),
    "infinite loss": ({"4.bias": 1e30}, CURVATURE),
    "infinite units": (
        {"0.weight": 3e38},
        {"dormant_fraction/1", "dormant_fraction/3", "trainability", "trainability/loss", *METRICS} - WEIGHTS,
    ),
}


def everything_of(stack: Learner) -> list[dict[str, float]]:
    fits = trainability(stack, updates=2).numbers()
    numbers = enumerate(measure_members(stack, per_layer=True, costly=True))
    return [own | {name: float(fit[i]) for name, fit in fits.items()} for i, own in numbers]


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_a_broken_network_has_numbers_or_nan_and_no_other_member_notices(state):
    values, undefined = STATES[state]
    stack, members = stack_and_members()
    sound = everything_of(stack)
    with torch.no_grad():
        for name, value in values.items():
            for parameter in (stack.module.get_parameter(name)[1], members[1].module.get_parameter(name)):
                parameter.copy_(torch.as_tensor(value))
    first, broken = everything_of(stack)
    alone = measure(members[1], per_layer=True, costly=True)
    assert first == sound[0]
    assert {name for name, value in broken.items() if not math.isfinite(value)} == undefined
    assert {name: broken[name] for name in alone} == pytest.approx(alone, rel=1e-5, nan_ok=True)
