"""Every activation in the networks of PPO, DQN and SAC: built, passed through, and learning."""

import pytest
import torch

from supple.agents.dqn.network import ValueNetwork
from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.agents.sac.bodies import MLPBody, SimBa, uniform
from supple.agents.sac.networks import Actor, QNetworks, linear_head
from supple.envs import Picture
from supple.interventions import activation_registry

TEXTS = [*activation_registry.names(), "prelu(granularity=global)", "prelu(granularity=neuron)"]
X, FRAMES = torch.randn(5, 3), torch.randint(0, 255, (2, 2, 36, 36), dtype=torch.uint8)


def draws():
    return torch.Generator().manual_seed(0)


BUILT = {  # name → makes the network; a function that passes inputs through; the shapes of the outputs
    "PPO": (lambda text: MultiHead({"a": PolicySpace(3, Gaussian(2))}, (8, 4), 6, text, True, draws()),
            lambda net: [*net(X, "a"), *net.log_std.values()], [(5, 2), (5,), (2,)]),
    "DQN": (lambda text: ValueNetwork(2 * 36 * 36, 3, (8,), text, draws(), picture=Picture(2, 36, 36)),
            lambda net: [net(FRAMES)], [(2, 3)]),
    "actor": (lambda text: Actor(SimBa(3, 8, 1, text, draws()), linear_head(8, 0, uniform(draws())), 2),
              lambda net: net(X), [(5, 2), (5, 2)]),
    "critics": (lambda text: QNetworks(
                    body := MLPBody(3, (8, 4), text, draws(), 2), linear_head(body.width, 2, uniform(draws())), 2),
                lambda net: [net(X)], [(2, 5)]),
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", BUILT)
def test_networks_of_agents_learn_with_every_activation(text, name):
    build, run, shapes = BUILT[name]
    net = build(text)
    outputs = run(net)
    assert [tuple(output.shape) for output in outputs] == shapes
    sum(output.sum() for output in outputs).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters() if p.requires_grad)
