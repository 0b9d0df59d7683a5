"""A member of a stack of SAC agents is its run alone: random numbers, losses, gradients, weights and interventions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.sac.agent import SAC
from supple.agents.sac.update import Transitions
from supple.envs import StepResult

SEEDS = (4, 7, 5)
D, A, N = 5, 2, 16


def both(small: Any, **changes: Any) -> tuple[SAC, list[SAC]]:
    """Return a stack, and the agents of its members alone."""
    return small.agent_with(seeds=SEEDS, **changes), [small.agent_with(seed=seed, **changes) for seed in SEEDS]


def in_float64(agent: SAC) -> SAC:
    """Gradients that are zero but for rounding have no sign there either, which Adam would make a step of."""
    for learner in agent._all_learners().values():
        for module in (learner.module, *learner.followers):
            module.double()
        learner.initial = {name: value.double() for name, value in learner.initial.items()}
    agent.mean, agent.scale = agent.mean.double(), agent.scale.double()
    return agent


def tensors(agent: SAC, networks: bool = True) -> dict[str, Tensor]:
    """Return parameters, followers, buffers, slots of optimizers, and losses, by name."""
    found = {}
    for name, learner in agent._all_learners().items():
        for i, module in enumerate((learner.module, *learner.followers)):
            found |= {f"{name}/{i}/{key}": value for key, value in module.state_dict().items()}
        found |= {f"{name}/initial/{key}": value for key, value in learner.initial.items()}
        assert learner.optimizer is not None
        for key, parameter in learner.module.named_parameters():
            for slot, value in learner.optimizer.state.get(parameter, {}).items():
                found[f"{name}/{key}: {slot}"] = value
            if parameter.grad is not None:
                found[f"{name}/{key}: gradient"] = parameter.grad
    return found | {f"loss of {name}": loss for name, loss in agent.soft_update.latest.items()}


def part(value: Tensor, member: int, like: Tensor) -> Tensor:
    """Return the part of a member in a tensor of the stack, as the tensor of its run alone is."""
    count = len(value) // len(SEEDS)
    return value[member * count : (member + 1) * count].reshape(like.shape)


def assert_members(stack: SAC, alone: list[SAC], rtol: float, atol: float) -> None:
    ours = tensors(stack)
    for member, agent in enumerate(alone):
        theirs = tensors(agent)
        assert theirs.keys() == ours.keys()
        for name, value in theirs.items():
            found = part(ours[name], member, value) if ours[name].ndim else ours[name]
            torch.testing.assert_close(
                found, value, rtol=rtol, atol=atol, msg=lambda m, n=name, i=member: f"member {i}: {n}: {m}"
            )


def assert_generators(stack: SAC, alone: list[SAC]) -> None:
    """Assert that all members have drawn what they draw alone."""
    for member, agent in enumerate(alone):
        for name, draws in agent._generators().items():
            assert torch.equal(stack._generators()[name][member].get_state(), draws.get_state()), name
        for name, learner in agent._all_learners().items():
            found = stack._all_learners()[name].generators[member]
            assert torch.equal(found.get_state(), learner.generator.get_state()), name
        assert torch.equal(stack.experience.draws[member].get_state(), agent.experience.draws.get_state())


def joined(results: list[StepResult]) -> StepResult:
    return StepResult(*(np.concatenate(values) for values in list(zip(*results, strict=True))[:-1]), [])


def live(stack: SAC, alone: list[SAC], worlds: list[Iterator[StepResult]], steps: int, hooks: Any, exact: bool) -> None:
    for _ in range(steps):
        actions = stack.act()
        wanted = np.concatenate([agent.act() for agent in alone])
        if exact:
            np.testing.assert_array_equal(actions, wanted)
        else:
            np.testing.assert_allclose(actions, wanted, atol=1e-4)
        results = [next(world) for world in worlds]
        stack.remember(joined(results))
        for agent, result in zip(alone, results, strict=True):
            agent.remember(result)
            agent.update(hooks, last=False)
        stack.update(hooks, last=False)


def begin(small: Any, stack: SAC, alone: list[SAC], seed: int = 0) -> list[Iterator[StepResult]]:
    worlds = [small.world(stack.settings.num_envs, seed + 10 * member) for member in range(len(alone))]
    first = [next(world).obs for world in worlds]
    stack.begin_episodes(np.concatenate(first))
    for agent, observations in zip(alone, first, strict=True):
        agent.begin_episodes(observations)
    return worlds


def batches(count: int) -> Iterator[list[tuple[Transitions, Tensor]]]:
    """Yield a batch for each member."""
    g = torch.Generator().manual_seed(0)

    def one() -> tuple[Transitions, Tensor]:
        states, next_states = torch.randn(2, N, D, generator=g, dtype=torch.float64)
        actions = torch.rand(N, A, generator=g, dtype=torch.float64) * 2 - 1
        rewards, ends = torch.randn(N, generator=g, dtype=torch.float64), torch.rand(N, generator=g) < 0.3
        noise = torch.randn(N, 2, A, generator=g, dtype=torch.float64)
        return Transitions(states, actions, rewards, ends, next_states), noise

    for _ in range(count):
        yield [one() for _ in SEEDS]


def step(stack: SAC, alone: list[SAC], batch: list[tuple[Transitions, Tensor]]) -> None:
    stacked = Transitions(*map(torch.stack, zip(*(transitions for transitions, _ in batch), strict=True)))
    found = stack.soft_update(stacked, torch.stack([noise for _, noise in batch]))
    wanted = [agent.soft_update(*each) for agent, each in zip(alone, batch, strict=True)]
    torch.testing.assert_close(found, torch.stack(wanted), rtol=1e-9, atol=1e-10)


# -- the same numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["simba", "mlp"])
def test_members_begin_with_the_weights_of_their_runs_alone(small: Any, network: str) -> None:
    stack, alone = both(small, network=network, critics=3)
    assert_members(stack, alone, 0, 0)
    assert_generators(stack, alone)
    assert stack.critics(torch.zeros(3, 4, D), torch.zeros(3, 4, A)).shape == (9, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"network": "simba"},
        {"network": "mlp", "normalization": "layer", "critics": 1},
        {"network": "mlp", "normalization": "spectral", "activation": "crelu", "log_std": "clipped"},
    ],
    ids=["simba", "layer", "spectral"],
)
def test_fifty_updates_in_float64_are_those_of_runs_alone(small: Any, changes: dict[str, Any]) -> None:
    stack, alone = both(small, **changes)
    for agent in (stack, *alone):
        in_float64(agent)
    for batch in batches(50):
        step(stack, alone, batch)
    assert_members(stack, alone, 1e-9, 1e-10)


def test_members_act_remember_and_learn_as_alone(small: Any) -> None:
    stack, alone = both(small, learning_starts=12)
    worlds = begin(small, stack, alone)
    live(stack, alone, worlds, 6, small.no_hooks, exact=True)  # random actions
    for member, agent in enumerate(alone):
        np.testing.assert_array_equal(stack.statistics.mean[member], agent.statistics.mean)
        np.testing.assert_array_equal(stack.centre.offset[member], agent.centre.offset)
    assert_members(stack, alone, 1e-4, 1e-5)  # after the first update
    live(stack, alone, worlds, 4, small.no_hooks, exact=False)
    assert_generators(stack, alone)
    numbers, wanted = stack.numbers(), [agent.numbers() for agent in alone]
    assert numbers.keys() == wanted[0].keys()
    for name, values in numbers.items():
        assert values == pytest.approx([each[name] for each in wanted], rel=1e-3), name
