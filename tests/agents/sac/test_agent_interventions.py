"""Interventions on the real SAC agent."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.interventions import Learner
from supple.metrics import measure
from supple.networks.modules import LINEAR

D, A = 5, 2


# -- interventions on the agent --------------------------------------------------------------------------


def slots_of(learner: Learner) -> dict[str, dict[str, Tensor]]:
    assert learner.optimizer is not None
    return {name: learner.optimizer.state[p] for name, p in learner.module.named_parameters() if p.requires_grad}


def is_zero(slots: dict[str, Tensor]) -> bool:
    return bool(slots) and not any(bool(value.any()) for value in slots.values())


@pytest.mark.slow
@pytest.mark.parametrize("contract", ["uniform", "as_released"])
@pytest.mark.parametrize("name", ["fire", "snp", "reset", "reset(what=head)"])
def test_what_an_intervention_resets_is_the_contracts_table(small: Any, name: str, contract: str) -> None:
    agent, _ = small.trained()
    before, memory = (
        small.everything(agent),
        [agent.experience.memory.frames.copy(), agent.experience.memory.action.copy()],
    )
    written = small.apply(agent, name, contract)
    after = small.everything(agent)
    different = small.changed(before, after)
    for learner in agent.learners.values():
        found = slots_of(learner)
        if contract == "uniform":
            assert {key for key, slots in found.items() if is_zero(slots)} == set(written[learner.name])
        else:
            assert all(map(is_zero, found.values()))
    for target, online in zip(agent.target.parameters(), agent.critics.parameters(), strict=True):
        assert torch.equal(target, online)
    of_temperature = [key for key in different if key.startswith("temperature/")]
    if contract == "uniform":
        assert of_temperature == []
    else:
        assert float(agent.temperature().detach()) == pytest.approx(0.01)
        assert len(of_temperature) == 4  # its value, two slots, its count of steps
        assert all(map(is_zero, slots_of(agent.soft_update.temperature).values()))
    # replay, statistics, random generators, sums for the log: kept
    assert all(key.split("/")[0] in ("actor", "critic", "temperature") for key in different)
    assert not any("generator" in key for key in different)
    np.testing.assert_array_equal(memory[0], agent.experience.memory.frames)
    np.testing.assert_array_equal(memory[1], agent.experience.memory.action)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["simba", "mlp"])
@pytest.mark.parametrize("contract", ["uniform", "as_released"])
def test_fire_makes_every_linear_an_isometry_and_leaves_biases_and_norms(
    small: Any, network: str, contract: str
) -> None:
    agent, steps = small.trained(network=network)
    before = small.everything(agent)
    written = small.apply(agent, "fire(method=polar)", contract)
    after = small.everything(agent)
    for learner in agent.learners.values():
        linears = {f"{n}.weight": m for n, m in learner.module.named_modules() if isinstance(m, LINEAR)}
        assert set(written[learner.name]) == set(linears)
        for name, module in linears.items():
            weight = module.get_parameter("weight").detach()
            values = torch.linalg.svdvals(weight)
            scale = (weight.shape[-2] / weight.shape[-1]) ** 0.5
            torch.testing.assert_close(values, torch.full_like(values, scale), msg=name)
        kept = [name for name in learner.initial if name not in linears]
        assert kept
        assert [name for name in kept if f"{learner.name}/0/{name}" in small.changed(before, after)] == []
    small.live(agent, steps, 5)
    agent.numbers()


@pytest.mark.slow
def test_fire_on_one_learner_leaves_the_other_alone(small: Any) -> None:
    agent, _ = small.trained()
    before = small.everything(agent)
    small.apply(agent, "fire", "uniform", "critic")
    assert {key.split("/")[0] for key in small.changed(before, small.everything(agent))} == {"critic"}


@pytest.mark.slow
def test_a_full_reset_as_released_leads_back_to_step_0(small: Any) -> None:
    agent, steps = small.trained()
    fresh = small.agent_with()
    small.apply(agent, "reset", "as_released")
    for ours, theirs in ((agent.actor, fresh.actor), (agent.critics, fresh.critics), (agent.target, fresh.target)):
        assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    small.live(agent, steps, 5)
    agent.numbers()


@pytest.mark.slow
def test_a_fresh_reset_draws_other_networks_by_the_agents_own_initialisation(small: Any) -> None:
    agent, _ = small.trained()
    small.apply(agent, "reset(toward=fresh)")
    embed, start = agent.critics.net.body.embed.weight, agent.learners["critic"].initial["net.body.embed.weight"]
    assert not torch.allclose(embed, start, atol=1e-2)
    gram = embed @ embed.mT if embed.shape[1] <= embed.shape[2] else embed.mT @ embed
    torch.testing.assert_close(gram, torch.eye(gram.shape[-1]).expand_as(gram), atol=1e-5, rtol=0)
    assert not agent.critics.net.head.bias.any()


@pytest.mark.slow
def test_interventions_can_act_before_the_first_step(small: Any) -> None:
    agent = small.agent_with()
    for name in ("fire", "snp", "reset", "injection"):
        small.apply(agent, name)
    small.live(agent, small.begun(agent), 20)
    assert agent.numbers()["updates"] == agent.experience.taken > 0


# -- injection -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("network", ["simba", "mlp"])
def test_injection_leaves_values_exactly_as_they_were_and_training_goes_on(small: Any, network: str) -> None:
    agent, steps = small.trained(network=network)
    states, actions = torch.randn(50, D), torch.rand(50, A) * 2 - 1
    with torch.no_grad():
        values = agent.critics(states, actions)
        assert small.apply(agent, "injection").keys() == {"critic"}
        assert torch.equal(agent.critics(states, actions), values)
        assert torch.equal(agent.target(states, actions), values)  # uniform: the target is the online network
    frozen = {name: p.detach().clone() for name, p in agent.critics.named_parameters() if not p.requires_grad}
    assert any(name.startswith("net.old.") for name in frozen)
    assert any(name.startswith("net.twin.") for name in frozen)
    small.live(agent, steps, 20)
    agent.numbers()
    assert not torch.allclose(agent.critics(states, actions), values, atol=1e-3)
    assert all(torch.equal(agent.critics.get_parameter(name), value) for name, value in frozen.items())
    for learner in agent.learners.values():
        assert all(np.isfinite(value) for value in measure(learner, per_layer=True).values())


def test_injection_was_released_for_no_sac(small: Any) -> None:
    with pytest.raises(ValueError, match="no released code applies injection here; use contract=uniform"):
        small.apply(small.agent_with(), "injection", "as_released")
