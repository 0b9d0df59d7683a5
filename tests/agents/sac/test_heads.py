"""SAC in a sequence: heads and statistics by environment, or the environment as a one-hot vector."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.envs import StepResult
from supple.interventions import Learner

D, A = 5, 2
SPACES = {
    "first": Control(D, (-1.0, -0.5), (1.0, 2.0)),
    "second": Control(D, (-2.0, -2.0), (2.0, 2.0)),
    "third": Control(D, (-1.0, -1.0), (1.0, 1.0)),
}
kinds = pytest.mark.parametrize("heads", ["environment", "one-hot"])


def agent_with(small: Any, **changes: Any) -> SAC:
    settings: SACSettings = replace(small.agent_with().settings, **{"heads": "environment", "num_envs": 2, **changes})
    return SAC(settings, SPACES)


def learn(small: Any, agent: SAC, env: str, decisions: int = 12) -> Iterator[StepResult]:
    """Let an agent learn for some steps in an environment, whose observations are far from those of others."""
    agent.begin_task(env)
    rows = agent.settings.num_envs * max(agent.seeds, 1)
    steps = small.world(rows, seed=list(SPACES).index(env))
    shift = 1_000 * list(SPACES).index(env)
    shifted = (step._replace(obs=step.obs + shift, final_obs=step.final_obs + shift) for step in steps)
    agent.begin_episodes(next(shifted).obs)
    small.live(agent, shifted, decisions)
    return shifted


def heads_of(learner: Learner) -> dict[str, list[torch.Tensor]]:
    """Return copies of the parameters of each environment's heads."""
    named = [(f".{name}.", p.detach().clone()) for name, p in learner.module.named_parameters()]
    return {env: [p for name, p in named if f".{env}." in name] for env in SPACES}


def moved(before: dict[str, list[torch.Tensor]], learner: Learner) -> list[str]:
    after = heads_of(learner)
    return [env for env in SPACES if not all(map(torch.equal, before[env], after[env]))]


@kinds
def test_a_transition_has_the_environment_and_statistics_of_where_it_was_made(small: Any, heads: str) -> None:
    agent = agent_with(small, heads=heads)
    for env in SPACES:
        learn(small, agent, env)
    sample = agent.experience.memory.sample(64, torch.Generator().manual_seed(0))
    batch = agent._transitions(sample)
    raw, numbers = sample.frames[:, 0, :D].numpy(), sample.frames[:, 0, D].long()
    assert set(numbers.tolist()) == {0, 1, 2}
    for i, env in enumerate(SPACES):
        own = numbers == i
        statistics, offset = agent.inputs.statistics[env], agent.inputs.centres[env].offset
        assert abs(statistics.mean - 100 - 1_000 * i).max() < 4
        wanted = (raw[own] + offset - statistics.mean) / np.sqrt(statistics.variance + 1e-8)
        np.testing.assert_allclose(batch.states[own, :D], wanted, atol=2e-3)
        for mark in (batch.states[own, D:], batch.next_states[own, D:]):
            one_hot = torch.eye(3)[i].expand(len(mark), -1)
            assert torch.equal(mark, one_hot if heads == "one-hot" else torch.full_like(mark, i))


def test_a_row_is_read_by_the_heads_of_its_environment(small: Any) -> None:
    agent = agent_with(small)
    states, numbers = torch.randn(6, D), torch.tensor([0, 1, 2, 2, 1, 0])
    marked = torch.cat([states, numbers[:, None]], 1)
    actions = torch.rand(6, A)
    mean, _ = agent.actor(marked)
    values = agent.critics(marked, actions)
    for row, number in enumerate(numbers.tolist()):
        env = list(SPACES)[number]
        features = agent.actor.body(states)
        torch.testing.assert_close(mean[row], agent.actor.mean[env](features)[row])
        features = agent.critics.net.body(torch.cat([states, actions], 1))
        torch.testing.assert_close(values[:, row], agent.critics.net.head[env](features)[:, row, 0])


def test_heads_learn_while_the_memory_has_transitions_of_their_environment(small: Any) -> None:
    agent = agent_with(small, replay_size=60, weight_decay=0.1)
    learn(small, agent, "first", 20)
    before = {name: heads_of(learner) for name, learner in agent.learners.items()}
    steps = learn(small, agent, "second", 5)
    for name, learner in agent.learners.items():
        assert moved(before[name], learner) == ["first", "second"]  # of 60 transitions, 40 are of the first
    small.live(agent, steps, 25)
    before = {name: heads_of(learner) for name, learner in agent.learners.items()}
    small.live(agent, steps, 5)
    for name, learner in agent.learners.items():
        assert moved(before[name], learner) == ["second"]


@pytest.mark.parametrize("sampling", ["uniform", "reservoir"])
@pytest.mark.parametrize(("keep", "learning"), [("0", ["second"]), ("0.5", ["first", "second"])])
def test_heads_rest_once_the_memory_was_emptied(small: Any, sampling: str, keep: str, learning: list[str]) -> None:
    if sampling == "reservoir" and keep != "0":
        pytest.skip("a reservoir has no newest transitions")
    agent = agent_with(small, replay_sampling=sampling)
    learn(small, agent, "first")
    agent.begin_task("second")
    small.apply(agent, f"replay(keep={keep})")
    before = heads_of(agent.learners["critic"])
    learn(small, agent, "second")
    assert moved(before, agent.learners["critic"]) == learning


def test_heads_of_a_reservoir_learn_as_long_as_it_is_kept(small: Any) -> None:
    agent = agent_with(small, replay_size=20, replay_sampling="reservoir")
    learn(small, agent, "first", 20)
    steps = learn(small, agent, "second", 30)
    before = heads_of(agent.learners["critic"])
    small.live(agent, steps, 10)
    assert moved(before, agent.learners["critic"]) == ["first", "second"]


@kinds
def test_an_environment_that_returns_finds_its_heads_and_statistics(small: Any, heads: str) -> None:
    agent = agent_with(small, heads=heads)
    learn(small, agent, "first")
    kept = agent.inputs.statistics["first"].mean.copy()
    learn(small, agent, "second")
    assert np.array_equal(agent.inputs.statistics["first"].mean, kept)
    rows = 100 + np.random.default_rng(0).normal(size=(3, D))
    with agent.greedy("first") as policy, agent.greedy("third") as other:
        actions = policy(rows)
        assert not np.allclose(actions, other(rows))
    agent.begin_task("first")
    np.testing.assert_array_equal(agent.to_bounds(agent.choose(rows)), actions)
    assert (actions <= np.array(SPACES["first"].high)).all()
    assert (actions >= np.array(SPACES["first"].low)).all()


@kinds
def test_an_agent_continues_from_its_state_bit_for_bit(small: Any, heads: str) -> None:
    agent, other = (agent_with(small, heads=heads, replay_size=40) for _ in range(2))
    for env in ("first", "second"):
        learn(small, agent, env)
    small.apply(agent, "injection")
    for env in ("first", "second"):
        other.begin_task(env)
    other.load_state_dict(small.saved(agent))
    for one in (agent, other):
        learn(small, one, "third", 5)
        small.apply(one, "fire")
        small.apply(one, "reset(what=head,toward=fresh)")
        learn(small, one, "first", 10)
    assert agent.left == other.left
    first, second = ([p for x in one._all_learners().values() for p in x.module.parameters()] for one in (agent, other))
    assert all(map(torch.equal, first, second))
    assert agent.numbers() == other.numbers()


@kinds
def test_a_member_of_a_stack_learns_as_alone(small: Any, heads: str) -> None:
    seeds = 3, 7
    stack = agent_with(small, heads=heads, seeds=seeds, seed=3, stack=2, num_envs=1)
    alone = [agent_with(small, heads=heads, seed=seed, num_envs=1) for seed in seeds]
    world = small.world(2, seed=5)
    steps = [next(world) for _ in range(16)]
    for one, rows in [(stack, slice(None)), *((single, slice(i, i + 1)) for i, single in enumerate(alone))]:
        parts = [StepResult(*(x[rows] for x in step[:5]), []) for step in steps]
        for env, own in (("first", parts[:8]), ("second", parts[8:])):
            one.begin_task(env)
            one.begin_episodes(own[0].obs)
            small.live(one, iter(own[1:]), 7)
    for name, learner in stack.learners.items():
        for i, single in enumerate(alone):
            values = dict(single.learners[name].module.named_parameters())
            for key, parameter in learner.module.named_parameters():
                own = parameter[learner.networks_of([i])].reshape(values[key].shape)
                torch.testing.assert_close(own, values[key], rtol=1e-4, atol=1e-4, msg=f"{name} {key}")


def test_heads_are_layers_of_their_own_that_a_reset_draws_anew(small: Any) -> None:
    agent = agent_with(small)
    learn(small, agent, "first")
    critic = agent.learners["critic"]
    assert [layer.name for layer in critic.layers if layer.role == "head"] == [f"net.head.{env}" for env in SPACES]
    before = heads_of(critic)
    small.apply(agent, "reset(what=head,toward=fresh)", "uniform", "critic")
    assert moved(before, critic) == list(SPACES)


def test_too_many_environments_are_refused_in_one_line(small: Any) -> None:
    settings = agent_with(small, heads="one-hot").settings
    with pytest.raises(ValueError, match="--heads one-hot needs at most 256 environments, got 257"):
        SAC(settings, {str(i): SPACES["first"] for i in range(257)})
