"""SAC in a sequence: heads and statistics by environment, or the environment as a one-hot vector."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.engine.hooks.members import acting_on
from supple.envs import StepResult
from supple.interventions import parse_hook
from tests.agents.lives import live, of_seeds, vectors
from tests.agents.sac.worlds import A, D, agent_with, world
from tests.agents.states import apply, changed, everything, saved

SPACES = {
    "first": Control(D, (-1.0, -0.5), (1.0, 2.0)),
    "second": Control(D, (-2.0, -2.0), (2.0, 2.0)),
    "third": Control(D, (-1.0, -1.0), (1.0, 1.0)),
}
kinds = pytest.mark.parametrize("heads", ["environment", "one-hot"])


def new(**changes: Any) -> SAC:
    return agent_with(SPACES, **{"heads": "environment", **changes})


def learn(agent: SAC, env: str, decisions: int = 12) -> Iterator[StepResult]:
    """Let an agent learn for some steps in an environment, whose observations are far from those of others."""
    agent.begin_task(env)
    number = list(SPACES).index(env)
    shifted = (
        step._replace(obs=step.obs + 1_000 * number, final_obs=step.final_obs + 1_000 * number)
        for step in world(seed=number)
    )
    agent.begin_episodes(next(shifted).obs)
    live(agent, shifted, decisions)
    return shifted


def learning(agent: SAC, steps: Iterator[StepResult]) -> set[str]:
    """Return the environments whose heads move within five decisions."""
    before = everything(agent)
    live(agent, steps, 5)
    moved = [name for name in changed(before, everything(agent)) if "/0/" in name]  # targets follow for long
    return {env for name in moved for env in SPACES if f".{env}." in name}


@kinds
def test_a_transition_has_the_environment_and_statistics_of_where_it_was_made(heads: str) -> None:
    agent = new(heads=heads)
    for env in SPACES:
        learn(agent, env)
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


def test_a_row_is_read_by_the_heads_of_its_environment() -> None:
    agent = new()
    states, actions, numbers = torch.randn(6, D), torch.rand(6, A), torch.tensor([0, 1, 2, 2, 1, 0])
    marked = torch.cat([states, numbers[:, None]], 1)
    mean, values = agent.actor(marked)[0], agent.critics(marked, actions)
    of_actor, net = agent.actor.body(states), agent.critics.net
    of_critics = net.body(torch.cat([states, actions], 1))
    for row, number in enumerate(numbers.tolist()):
        env = list(SPACES)[number]
        torch.testing.assert_close(mean[row], agent.actor.mean[env](of_actor)[row])
        torch.testing.assert_close(values[:, row], net.head[env](of_critics)[:, row, 0])


def test_heads_learn_while_the_memory_has_transitions_of_their_environment() -> None:
    agent = new(replay_size=60, weight_decay=0.1)
    learn(agent, "first", 20)
    steps = learn(agent, "second", 1)
    assert learning(agent, steps) == {"first", "second"}  # of 60 transitions, 40 are of the first
    live(agent, steps, 25)
    assert learning(agent, steps) == {"second"}


@pytest.mark.parametrize(
    ("sampling", "keep", "heads"),
    [
        ("uniform", "0", {"second"}),
        ("uniform", "0.5", {"first", "second"}),
        ("reservoir", "0", {"second"}),
        ("reservoir", "", {"first", "second"}),  # kept, although it is full
    ],
)
def test_heads_rest_once_the_memory_was_emptied(sampling: str, keep: str, heads: set[str]) -> None:
    agent = new(replay_size=24, replay_sampling=sampling)
    learn(agent, "first")
    agent.begin_task("second")
    if keep:
        apply(agent, f"replay(keep={keep})")
    assert learning(agent, learn(agent, "second", 5)) == heads


def test_heads_go_on_learning_while_a_member_remembers_what_another_one_forgot() -> None:
    agent, steps = new(**of_seeds(3, 0)), vectors(D, 4)
    for env, decisions in (("first", 12), ("second", 3)):
        agent.begin_task(env)
        agent.begin_episodes(next(steps).obs)
        live(agent, steps, decisions)
    (hook,) = [parse_hook("replay(keep=0.1)@when:weight_norm>0")]
    assert hook is not None
    for seeds, resting in (([0], {"third"}), ([1], {"first", "third"})):
        with acting_on(hook, agent.learners["critic"], seeds):
            hook.intervention.apply(agent.learners["critic"])
        live(agent, steps, 1)
        assert agent.soft_update.resting == resting


@kinds
def test_an_environment_that_returns_finds_its_heads_and_statistics(heads: str) -> None:
    agent = new(heads=heads)
    learn(agent, "first")
    kept = agent.inputs.statistics["first"].mean.copy()
    learn(agent, "second")
    assert np.array_equal(agent.inputs.statistics["first"].mean, kept)
    rows = 100 + np.random.default_rng(0).normal(size=(3, D))
    with agent.greedy("first") as policy, agent.greedy("third") as other:
        actions = policy(rows)
        assert not np.allclose(actions, other(rows))
    agent.begin_task("first")
    np.testing.assert_array_equal(agent.to_bounds(agent.choose(rows)), actions)
    assert (np.clip(actions, SPACES["first"].low, SPACES["first"].high) == actions).all()


def test_an_agent_continues_from_its_state_bit_for_bit() -> None:
    agent, other = new(replay_size=40), new(replay_size=40)
    for env in ("first", "second"):
        learn(agent, env)
    apply(agent, "injection")
    other.load_state_dict(saved(agent))
    for one in (agent, other):
        learn(one, "third", 5)
        apply(one, "reset(what=head,toward=fresh)")
        learn(one, "first", 10)
    assert agent.left == other.left
    assert changed(everything(agent), everything(other)) == []
    assert agent.numbers() == other.numbers()


def test_heads_are_layers_of_their_own_that_a_reset_draws_anew() -> None:
    agent = new()
    names = {layer.name for learner in agent.learners.values() for layer in learner.layers if layer.role == "head"}
    assert names == {f"{head}.{env}" for head in ("net.head", "mean", "log_std") for env in SPACES}
    before = everything(agent)
    apply(agent, "reset(what=head,toward=fresh)", "uniform", "critic")
    weights = {name for name in changed(before, everything(agent)) if name.startswith("critic/0/")}
    assert weights == {f"critic/0/net.head.{env}.weight" for env in SPACES}


def test_too_many_environments_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"--heads one-hot needs 2 to 256 environments .*, got 257"):
        agent_with(dict.fromkeys(map(str, range(257)), SPACES["first"]), heads="one-hot")
