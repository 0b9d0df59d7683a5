from itertools import product

import pytest
import torch
from torch import nn

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.agents.ppo.network import PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.interventions import Learner, learner_for, make, snapshot


def learner() -> Learner:
    """A network whose every parameter is off its start."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)
    )
    return move_parameters(learner_for(module, seed=1))


def agent() -> Learner:
    settings = PPOSettings(env="any", steps=1, hidden=(8, 8), adapter=4, share_value=True, num_envs=2, compile="off")
    return move_parameters(
        PPO(settings, {"a": PolicySpace(3, Gaussian(2)), "b": PolicySpace(5, Gaussian(1))}).learners["agent"]
    )


def move_parameters(target: Learner) -> Learner:
    with torch.no_grad():
        for parameter in target.module.parameters():
            parameter.add_(1.0)
    return target


def find_restored(target: Learner) -> set[str]:
    """Names of the parameters at their step-0 value, after checking that all others are untouched."""
    at_start = set()
    for name, parameter in target.module.named_parameters():
        if torch.equal(parameter, target.initial[name]):
            at_start.add(name)
        else:
            assert torch.equal(parameter, target.initial[name] + 1.0), name
    return at_start


@pytest.mark.parametrize(
    ("params", "layers"),
    [
        ({"what": "encoder"}, ["0"]),
        ({"what": "hidden"}, ["3"]),
        ({"what": "head"}, ["6"]),
        ({"what": "conv"}, ["0"]),
        ({"what": "linear"}, ["3", "6"]),
        ({"what": "layer", "layer": "3"}, ["3"]),
        ({"what": "last"}, ["6"]),
        ({"what": "last", "count": 2}, ["3", "6"]),
        ({"what": "last", "count": 9}, ["0", "3", "6"]),
    ],
    ids=str,
)
def test_a_part_returns_exactly_to_its_initial_values_and_the_rest_is_kept(params, layers):
    target = learner()
    written = make("reset", **params).apply(target)
    expected = {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    assert set(written) == expected
    assert find_restored(target) == expected


def test_a_full_reset_restores_every_parameter_norms_and_loose_ones_included():
    for target in (learner(), agent()):
        make("reset").apply(target)
        assert find_restored(target) == set(target.initial)


def test_a_head_reset_restores_the_heads_of_all_environments_and_nothing_else():
    target = agent()
    make("reset", what="head").apply(target)
    expected = {".".join(parts) for parts in product(("policy", "value"), "ab", ("weight", "bias"))}
    assert find_restored(target) == expected


def test_parallel_heads_are_one_depth():
    target = agent()
    make("reset", what="last", count=2).apply(target)
    assert {name.split(".")[0] for name in find_restored(target)} == {"policy", "value", "body"}
    assert "body.0.weight" not in find_restored(target)


def test_a_fresh_reset_is_a_new_draw_of_the_part_alone():
    target, twin = learner(), learner()
    before = snapshot(target.module)
    for one in (target, twin):
        make("reset", what="head", toward="fresh").apply(one)
    after = snapshot(target.module)
    assert {name for name in after if not torch.equal(after[name], before[name])} == {"6.weight", "6.bias"}
    assert not torch.equal(after["6.weight"], target.initial["6.weight"])
    assert torch.equal(after["6.weight"], twin.module[6].weight)


def test_a_fresh_reset_of_an_agent_follows_its_own_initialisation():
    target = agent()
    make("reset", toward="fresh").apply(target)
    weight = dict(target.module.named_parameters())["body.2.weight"].detach()
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(8))  # orthogonal with gain √2
    assert not torch.allclose(weight, target.initial["body.2.weight"])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"what": "haed"}, "did you mean 'head'"),
        ({"what": "layer"}, "what=layer and layer=NAME"),
        ({"what": "head", "layer": "6"}, "what=layer and layer=NAME"),
        ({"what": "head", "count": 2}, "count=2 needs what=last, got what=head"),
        ({"toward": "zero"}, "toward should be one of"),
        ({"what": "optimizer", "toward": "fresh"}, "writes no parameter"),
        ({"what": "optimizer", "contract": "as_released"}, "writes no parameter"),
    ],
)
def test_contradicting_parameters_are_refused_at_construction(params, message):
    with pytest.raises(ValueError, match=message) as refusal:
        make("reset", **params)
    assert "\n" not in str(refusal.value)


def test_a_part_that_the_network_lacks_is_refused_at_attach():
    with pytest.raises(ValueError, match=r"has no layer 'body' \(layers: 0, 3, 6\)"):
        make("reset", what="layer", layer="body").attach(learner())
    with pytest.raises(ValueError, match="scope 'conv' names no layer of 'agent'"):
        make("reset", what="conv").attach(agent())


def test_what_optimizer_resets_only_the_optimizer():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    target = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    of = learner_for(module, torch.optim.Adam(module.parameters()), followers=(target,))
    module(torch.randn(3, 4)).sum().backward()
    of.optimizer.step()
    weights, followed = snapshot(module), snapshot(target)
    reset = make("reset", what="optimizer")
    reset.attach(of)
    assert reset.apply(of) == []
    for slots in of.optimizer.state.values():
        assert not any(value.any() for value in slots.values())
    assert all(torch.equal(p, weights[name]) for name, p in module.named_parameters())
    assert all(torch.equal(p, followed[name]) for name, p in target.named_parameters())
    row = reset.contract(of)
    assert (row["weights"], row["optimizer state"], row["target network"]) == ("kept", "fresh (every tensor)", "kept")


def test_what_optimizer_needs_an_optimizer_whose_start_is_known():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with pytest.raises(ValueError, match="reset: 'model' has no optimizer"):
        make("reset", what="optimizer").attach(learner_for(module))
    with pytest.raises(ValueError, match="the optimizer is LBFGS"):
        make("reset", what="optimizer").attach(learner_for(module, torch.optim.LBFGS(module.parameters())))
