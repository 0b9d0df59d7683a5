from itertools import product

import pytest
import torch
from torch import nn

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.agents.ppo.network import PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.interventions import Learner, learner_for, make, snapshot
from tests.interventions.common import changed, slots, update
from tests.interventions.common import learner as learner_of


def learner() -> Learner:
    """A network whose every parameter and statistic is off its start."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
    )
    return move_values(learner_for(module, seed=1))


def agent() -> Learner:
    settings = PPOSettings(env="any", steps=1, hidden=(8, 8), adapter=4, share_value=True, num_envs=2, compile="off")
    spaces = {"a": PolicySpace(3, Gaussian(2)), "b": PolicySpace(5, Gaussian(1))}
    return move_values(PPO(settings, spaces).learners["agent"])


@torch.no_grad()
def move_values(target: Learner) -> Learner:
    for value in target.module.state_dict().values():
        value.add_(1)
    return target


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
    before = snapshot(target.module)
    written = make("reset", **params).apply(target)
    assert set(written) == {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    assert changed(target.module, before | {name: target.initial[name] for name in written}) == set()


@pytest.mark.parametrize("build", [learner, agent])
def test_a_full_reset_restores_every_parameter_norms_with_their_statistics_and_loose_ones_included(build):
    target = build()
    make("reset").apply(target)
    assert not changed(target.module, target.initial)


def test_heads_of_all_environments_are_one_part_of_one_depth():
    target = agent()
    heads = {".".join(parts) for parts in product(("policy", "value"), "ab", ("weight", "bias"))}
    assert set(make("reset", what="head").apply(target)) == heads
    assert set(make("reset", what="last", count=2).apply(target)) == heads | {"body.2.weight", "body.2.bias"}


def test_a_fresh_reset_is_a_new_draw_of_the_part_alone():
    target, twin = learner(), learner()
    before = snapshot(target.module)
    for one in (target, twin):
        make("reset", what="head", toward="fresh").apply(one)
    assert changed(target.module, before) == {"6.weight", "6.bias"}
    assert not torch.equal(target.module[6].weight, target.initial["6.weight"])
    assert torch.equal(target.module[6].weight, twin.module[6].weight)


def test_a_fresh_reset_of_an_agent_follows_its_own_initialisation():
    target = agent()
    make("reset", toward="fresh").apply(target)
    weight = target.module.get_parameter("body.2.weight").detach()
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(8))  # orthogonal with gain √2
    assert not torch.allclose(weight, target.initial["body.2.weight"])


def test_what_optimizer_resets_only_the_optimizer():
    target, follower, reset = learner_of(optimizer=torch.optim.Adam), nn.Linear(4, 2), make("reset", what="optimizer")
    target.followers = (follower,)
    update(target)
    before, followed = snapshot(target.module), snapshot(follower)
    reset.attach(target)
    assert reset.apply(target) == []
    assert not any(value.any() for state in slots(target).values() for value in state.values())
    assert not changed(target.module, before) | changed(follower, followed)
    row = reset.contract(target)
    assert (row["weights"], row["optimizer state"], row["target network"]) == ("kept", "fresh (every tensor)", "kept")
