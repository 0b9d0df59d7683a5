"""Every activation in the networks of PPO, DQN and SAC: built, passed through, and learning."""

import pytest
import torch

from supple.agents.dqn.network import ValueNetwork
from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.agents.sac.networks import Actor, MLPBody, QNetworks, SimBa, uniform
from supple.envs import Picture
from supple.interventions import activation_registry

TEXTS = [*activation_registry.names(), "prelu(granularity=global)", "prelu(granularity=neuron)"]


def draws():
    return torch.Generator().manual_seed(0)


def learns(network, outputs):
    sum(o.sum() for o in outputs).backward()
    return all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters() if p.requires_grad)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("share", [True, False])
def test_networks_of_ppo_learn_with_every_activation(text, share):
    net = MultiHead({"a": PolicySpace(3, Gaussian(2))}, (8, 4), 6, text, share, draws())
    mean, value = net(torch.randn(5, 3), "a")
    assert (mean.shape, value.shape) == ((5, 2), (5,))
    assert learns(net, [mean, value, *net.log_std.values()])
    assert len(net.units()) == len(net.wiring()[0]) == (2 if share else 4)


@pytest.mark.parametrize("text", TEXTS)
def test_networks_of_dqn_learn_with_every_activation(text):
    net = ValueNetwork(2 * 36 * 36, 3, (8,), text, draws(), picture=Picture(2, 36, 36))
    values = net(torch.randint(0, 255, (2, 2, 36, 36), dtype=torch.uint8))
    assert values.shape == (2, 3)
    assert learns(net, [values])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("body", ["simba", "mlp"])
def test_networks_of_sac_learn_with_every_activation(text, body):
    def build(members):
        if body == "simba":
            return SimBa(5, 8, 1, text, draws(), members), 8
        mlp = MLPBody(5, (8, 4), text, draws(), members)
        return mlp, mlp.width

    actor = Actor(*build(0), 2, uniform(draws()))
    mean, log_std = actor(torch.randn(3, 5))
    assert mean.shape == (3, 2)
    assert learns(actor, [mean, log_std])
    critics = QNetworks(*build(2), 2, uniform(draws()))
    values = critics(torch.randn(3, 5))
    assert values.shape == (2, 3)
    assert learns(critics, [values])
