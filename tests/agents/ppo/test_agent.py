import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Independent

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.agents.ppo.network import PolicySpace
from supple.agents.ppo.policies import Bernoulli, Categorical, Gaussian, Policy
from supple.engine.hooks.driver import HookDriver
from supple.envs import StepResult
from supple.interventions import Hook, Intervention, Learner
from tests.agents.states import changed

from .test_network import require_balance

SPACES = {"a": PolicySpace(4, Gaussian(2)), "b": PolicySpace(3, Gaussian(1))}
NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)


def agent_with(spaces: Mapping[str, PolicySpace] = SPACES, **changes: Any) -> PPO:
    values = {
        "env": "unused", "steps": 1, "num_envs": 2, "rollout_steps": 16, "epochs": 2, "minibatch_size": 8,
        "hidden": (8,), "adapter": 6, "compile": "off", **changes,
    }  # fmt: skip
    return PPO(PPOSettings(**values), spaces)


def world(key: str, envs: int = 2, seed: int = 0, ends: bool = True) -> Iterator[StepResult]:
    """Yield random steps without end. With `ends`, a tenth terminate and a tenth are truncated."""
    rng = np.random.default_rng(seed)
    while True:
        obs, final = rng.normal(size=(2, envs, SPACES[key].observation))
        terminated, truncated = (rng.random((2, envs)) < 0.1) & ends
        final = np.where((terminated | truncated)[:, None], final, obs)
        yield StepResult(obs, rng.normal(size=envs), terminated, truncated, final, [])


def live(
    agent: PPO, key: str, rollouts: int = 1, seed: int = 0, ends: bool = True, hooks: HookDriver = NO_HOOKS
) -> None:  # fmt: skip
    """Let the agent act and learn in a task of some rollouts."""
    steps = world(key, agent.settings.num_envs, seed, ends)
    agent.begin_task(key)
    agent.begin_episodes(next(steps).obs)
    for _ in range(rollouts * agent.settings.rollout_steps):
        agent.act()
        agent.remember(next(steps))
        agent.update(hooks, last=False)


def own_state(agent: PPO, key: str) -> dict[str, Tensor]:
    """Return everything that belongs to one environment only: parameters, Adam's state, statistics."""
    found = {}
    for name, p in agent.network.named_parameters():
        if f".{key}." in f".{name}.":
            found |= {name: p.detach().clone()} | {f"{name}/{slot}": v for slot, v in agent.optimizer.state[p].items()}
    observations, rewards = agent.normalizers.observations[key], agent.normalizers.rewards[key].statistics
    for what, statistics in (("observations", observations), ("rewards", rewards)):
        found |= {f"{what} {name}": torch.tensor(value) for name, value in statistics.state_dict().items()}
    return copy.deepcopy(found)


class Looks(Intervention):
    """An intervention that records the inputs of every gradient step, as the learner returns them."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def after_update(self, learner: Learner) -> None:
        assert learner.last_inputs is not None
        self.seen.append(learner.last_inputs())


@pytest.mark.parametrize("minibatch", [5, 8, 1_000])  # six steps, three and two rows left over, or one
def test_hooks_look_at_every_gradient_step_and_an_epoch_visits_rows_once_up_to_the_remainder(minibatch: int) -> None:
    agent, looks = agent_with(rollout_steps=14, minibatch_size=minibatch, epochs=3), Looks()
    live(agent, "a", hooks=HookDriver([Hook("looks", looks, None)], agent.learners, lambda **_: None, 1))
    assert agent.recent.last is not None
    every, size = {*map(tuple, agent.recent.last[1].observations.tolist())}, min(minibatch, 28)
    assert [(len(rows), key) for rows, key in looks.seen] == [(size, "a")] * (28 // size * 3)
    seen = torch.cat([rows for rows, _ in looks.seen]).unflatten(0, (3, -1)).tolist()
    epochs = [[*map(tuple, rows)] for rows in seen]
    assert all(len({*rows}) == len(rows) and {*rows} <= every for rows in epochs)
    assert len({tuple(rows) for rows in epochs}) == 3  # another order each time
    assert (len({frozenset(rows) for rows in epochs}) > 1) == (28 % size > 0)  # and other rows left over
    assert agent.learners["agent"].last_inputs is not None
    assert agent.learners["agent"].last_inputs() is None  # between updates


def test_the_network_and_its_fresh_draws_begin_with_the_balance() -> None:
    agent = agent_with(hidden=(8, 8), activation="relu", init_lambda=1.5)
    fresh = copy.deepcopy(agent.network)
    fresh.load_state_dict({**agent.network.state_dict(), **agent.learners["agent"].redraw()})
    assert not torch.equal(fresh.body[0].weight, agent.network.body[0].weight)
    for net in (agent.network, fresh):
        require_balance([[*net.adapters.values()], [net.body[0]], [net.body[2]], [*net.policy.values()]], 1.5)


@pytest.mark.slow
def test_training_on_one_environment_leaves_what_belongs_to_another_untouched() -> None:
    agent = agent_with()
    live(agent, "b")
    start = own_state(agent, "b")
    live(agent, "a", seed=1)
    assert changed(start, own_state(agent, "b")) == []
    live(agent, "b", seed=2)
    assert {*changed(start, own_state(agent, "b"))} == start.keys()


@pytest.mark.parametrize(
    ("policy", "peer"),
    [
        (Gaussian(2), lambda mean: Independent(torch.distributions.Normal(mean, torch.tensor([-0.7, 0.4]).exp()), 1)),
        (Categorical(3), lambda logits: torch.distributions.Categorical(logits=logits)),
        (Bernoulli(3), lambda logits: Independent(torch.distributions.Bernoulli(logits=logits), 1)),
    ],
)
def test_stored_log_probabilities_and_values_are_those_of_the_network_that_acted(policy: Policy, peer: Any) -> None:
    agent = agent_with({"a": PolicySpace(4, policy)}, normalize_observations=False)
    with torch.no_grad():
        agent.network.policy["a"].weight.mul_(100)  # away from the start, where all actions are as likely
        for scale in agent.network.log_std.values():
            scale.copy_(torch.tensor([-0.7, 0.4]))
    before = copy.deepcopy(agent.network)
    live(agent, "a")
    _, batch = agent.recent.probe or pytest.fail("no batch was kept")
    with torch.no_grad():
        expected = peer(before.make_policy("a")(batch.observations)).log_prob(batch.actions.to(torch.float32))
        torch.testing.assert_close(batch.values, before.values(batch.observations, "a"))
    torch.testing.assert_close(batch.log_probs, expected, rtol=1e-4, atol=1e-5)
    assert expected.std() > 0.01


@pytest.mark.parametrize("scope", ["batch", "minibatch"])
def test_advantages_are_normalised_once_in_the_batch_or_in_each_minibatch(scope: str) -> None:
    agent = agent_with(advantage_scope=scope, epochs=1)
    live(agent, "a")
    advantages = agent.recent.last[1].advantages  # type: ignore[index]
    normal = abs(float(advantages.mean())) < 1e-5 and float(advantages.std()) == pytest.approx(1, abs=1e-4)
    assert normal == (scope == "batch")


@pytest.mark.parametrize("taken", [1, 5])
def test_the_rollout_that_a_task_ends_in_is_learned_from_as_far_as_it_goes(taken: int) -> None:
    agent, steps = agent_with(minibatch_size=8), world("a")
    before = copy.deepcopy(agent.network.state_dict())
    agent.begin_task("a")
    agent.begin_episodes(next(steps).obs)
    for _ in range(taken):
        agent.act()
        agent.remember(next(steps))
        assert not agent.update(NO_HOOKS, last=False)
    assert agent.update(NO_HOOKS, last=True)
    assert np.isfinite(list(agent.numbers().values())).all()
    assert len(agent.recent.probe[1].returns) == 2 * taken  # type: ignore[index]
    assert not torch.equal(agent.network.state_dict()["body.0.weight"], before["body.0.weight"])
    assert agent.rollout.filled == 0


def test_a_truncated_episode_is_valued_at_its_true_last_observation() -> None:
    agent = agent_with(normalize_observations=False, normalize_rewards=False)
    agent.begin_task("a")
    agent.begin_episodes(np.zeros((2, 4)))
    agent.act()
    final, obs = np.full((2, 4), 3.0), np.full((2, 4), -3.0)
    # Environment 0 is truncated; environment 1 is so too, but also terminates, which counts.
    agent.remember(StepResult(obs, np.zeros(2), np.array([False, True]), np.array([True, True]), final, []))
    seen = agent.rollout.all_observations(agent.current)
    torch.testing.assert_close(seen, torch.tensor([0.0, 0.0, -3.0, -3.0, 3.0])[:, None].expand(5, 4))


@pytest.mark.parametrize("scaled", [True, False])
def test_rewards_are_multiplied_and_scaled_where_asked(scaled: bool) -> None:
    agent, steps, rewards = agent_with(normalize_rewards=scaled, reward_scale=0.05), world("a"), []
    agent.begin_task("a")
    agent.begin_episodes(next(steps).obs)
    for _ in range(10):
        agent.act()
        rewards.append((result := next(steps)).reward)
        agent.remember(result)
    assert np.allclose(agent.rollout.rewards[:10], 0.05 * np.array(rewards)) is not scaled
    assert (agent.normalizers.rewards["a"].statistics.count > 1) is scaled


def test_observations_are_normalised_by_the_statistics_of_their_environment() -> None:
    agent = agent_with()
    first = np.random.default_rng(0).normal(5, 3, size=(2, 4))
    agent.begin_task("a")
    agent.begin_episodes(first)
    np.testing.assert_allclose(agent.current, (first - first.mean(0)) / first.std(0), atol=1e-2)
    assert agent.normalizers.observations["b"].count < 1
    raw = agent_with(normalize_observations=False)
    raw.begin_task("a")
    raw.begin_episodes(first)
    np.testing.assert_array_equal(raw.current, first.astype(np.float32))


def test_a_state_is_not_changed_by_training_on() -> None:
    agent = agent_with()
    live(agent, "a")
    state = agent.state_dict()
    kept = [state["learner"]["optimizer"], state["observations"], state["rewards"]]
    before = copy.deepcopy(kept)
    live(agent, "a", seed=1)
    torch.testing.assert_close(kept, before, rtol=0, atol=0)
