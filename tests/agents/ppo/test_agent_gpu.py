"""PPO with its network on a GPU. Tests that need one are skipped where there is none."""

import pytest
import torch
from torch import Tensor

from supple.agents.ppo.agent import PPO
from supple.interventions import make
from supple.metrics import measure

from .test_agent import agent_with, live

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


def parameters(agent: PPO) -> dict[str, Tensor]:
    return {name: p.detach().cpu().clone() for name, p in agent.network.named_parameters()}


def assert_close(a: PPO, b: PPO) -> None:
    torch.testing.assert_close(parameters(a), parameters(b), rtol=1e-3, atol=1e-4)


@needs_gpu
@pytest.mark.parametrize("name", ["fire", "snp", "reset", "redo"])
def test_a_gpu_learns_what_the_cpu_does_across_an_intervention(name: str) -> None:
    here, there = agent_with(), agent_with(device="cuda")
    start = parameters(here)
    for agent in (here, there):
        live(agent, "a", rollouts=2)
        intervention = make(name)
        intervention.attach(agent.learners["agent"])
        intervention.apply(agent.learners["agent"])
        live(agent, "a", rollouts=1, seed=1)
    assert_close(here, there)
    assert not torch.equal(parameters(here)["body.0.weight"], start["body.0.weight"])
    assert {p.device.type for p in there.network.parameters()} == {"cuda"}


@needs_gpu
def test_training_continues_on_another_device() -> None:
    there = agent_with(device="cuda")
    live(there, "a", rollouts=2)
    here, back = agent_with(), agent_with(device="cuda")
    here.load_state_dict(there.state_dict())
    back.load_state_dict(here.state_dict())
    for agent in (there, here, back):
        live(agent, "a", rollouts=1, seed=1)
    assert_close(there, here)
    assert_close(there, back)
    assert measure(back.learners["agent"], per_layer=True)
