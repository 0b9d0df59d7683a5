"""SAC's act, remember and update, in the world of conftest.py."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.agents.sac.inputs import Control

D, A = 5, 2


# -- acting ----------------------------------------------------------------------------------------------


def test_actions_are_random_until_learning_starts_and_then_the_policys(small: Any) -> None:
    agent = small.agent_with(learning_starts=6, replay_ratio=0.01)
    steps = small.begun(agent)
    for decision in range(0, 12, 2):
        again = torch.Generator()
        again.set_state(agent.exploration.get_state())
        agent.act()
        if decision < 6:
            wanted = 2 * torch.rand(2, A, generator=again) - 1
        else:
            states = agent.inputs.of(agent.current, "a")
            wanted = agent.actor.sample(states, torch.randn(2, A, generator=again))[0]
        np.testing.assert_array_equal(agent.actions, wanted.detach().numpy())
        agent.remember(next(steps))
        agent.update(small.no_hooks, last=False)


@pytest.mark.slow
def test_random_actions_fill_the_whole_box(small: Any) -> None:
    agent = small.agent_with(learning_starts=10_000)
    small.begun(agent)
    actions = np.concatenate([agent.act() for _ in range(1_000)])
    np.testing.assert_allclose(actions.mean(0), [0.0, 0.75], atol=0.08)
    np.testing.assert_allclose(actions.min(0), [-1.0, -0.5], atol=0.01)
    np.testing.assert_allclose(actions.max(0), [1.0, 2.0], atol=0.01)


@pytest.mark.slow
@settings(max_examples=25)
@given(bounds=st.lists(st.tuples(*[st.floats(-1e4, 1e4, width=32)] * 2).map(sorted), min_size=1, max_size=4))
def test_actions_stay_in_the_box_to_the_last_bit(small: Any, bounds: list[tuple[float, float]]) -> None:
    """A saturated tanh is ±1: that is a bound of the box, which rounding must not pass."""
    box = gym.spaces.Box(*(np.array(bound, np.float32) for bound in zip(*bounds, strict=True)))
    agent = small.agent_with(Control(D, tuple(map(float, box.low)), tuple(map(float, box.high))))
    for value in (-1.0, -0.3, 0.0, 0.9999999, 1.0):
        action = agent.to_bounds(np.full((1, len(bounds)), value, np.float32))[0]
        assert action.dtype == np.float32
        assert box.contains(action)
        wanted = box.low.astype(np.float64) + 0.5 * (value + 1) * (box.high.astype(np.float64) - box.low)
        tiny = np.finfo(np.float32).tiny  # below it, float32 has few digits, or none where denormals are flushed
        np.testing.assert_allclose(action, wanted, rtol=1e-5, atol=tiny + 1e-5 * np.abs([box.low, box.high]).max())


@pytest.mark.slow
def test_evaluation_is_deterministic_and_leaves_no_trace(small: Any) -> None:
    agent = small.agent_with(activation="rand_smooth_leaky")
    steps = small.begun(agent)
    small.live(agent, steps, 20)
    before = small.everything(agent)
    observations = 3 * next(steps).obs
    with agent.greedy("a") as policy:
        actions = policy(observations)
        np.testing.assert_array_equal(actions, policy(observations))
        mean = agent.actor(agent.inputs.of(observations, "a"))[0]
        np.testing.assert_array_equal(actions, agent.to_bounds(torch.tanh(mean).detach().numpy()))
    assert agent.actor.training
    assert small.changed(before, small.everything(agent)) == []


# -- observations ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_statistics_are_those_of_all_observations_acted_on_in_float64(small: Any, num_envs: int, dtype: type) -> None:
    agent = small.agent_with(num_envs=num_envs, learning_starts=10_000)
    steps = small.world(num_envs, dtype=dtype)
    agent.begin_episodes(next(steps).obs)
    seen = []
    for _ in range(400):
        seen.append(agent.current)
        small.live(agent, steps, 1)
    every = np.concatenate(seen).astype(np.float64)
    assert agent.inputs.statistics["all"].mean.dtype == agent.inputs.statistics["all"].variance.dtype == np.float64
    np.testing.assert_allclose(agent.inputs.statistics["all"].mean, every.mean(0), rtol=1e-6)
    np.testing.assert_allclose(agent.inputs.statistics["all"].variance, every.var(0), rtol=1e-4)
    wanted = (every[:5] - agent.inputs.statistics["all"].mean) / np.sqrt(agent.inputs.statistics["all"].variance + 1e-8)
    np.testing.assert_allclose(agent.inputs.of(every[:5], "a"), wanted, atol=2e-3)


@pytest.mark.slow
def test_memory_keeps_raw_observations_which_are_normalised_as_they_are_sampled(small: Any) -> None:
    agent = small.agent_with(learning_starts=10_000)
    steps = small.begun(agent)
    small.live(agent, steps, 50)
    sample = agent.experience.memory.sample(64, torch.Generator().manual_seed(0))
    assert float(sample.frames[:, 0].min()) > 50
    for _ in range(2):
        batch = agent._transitions(sample)
        deviation = np.sqrt(agent.inputs.statistics["all"].variance + 1e-8)
        wanted = (sample.frames[:, 0].double().numpy() - agent.inputs.statistics["all"].mean) / deviation
        np.testing.assert_allclose(batch.states, wanted, atol=2e-3)
        small.live(agent, steps, 20)  # by later statistics from then on


@pytest.mark.slow
def test_without_normalisation_networks_see_what_the_environment_shows(small: Any) -> None:
    agent = small.agent_with(normalize_observations=False)
    steps = small.begun(agent)
    small.live(agent, steps, 20)
    x = torch.randn(3, D)
    assert torch.equal(agent.inputs.of(x.numpy(), "a"), x)
    agent.load_state_dict(small.saved(agent))
    assert torch.equal(agent.inputs.of(x.numpy(), "a"), x)


def test_truncated_transitions_bootstrap_from_the_true_last_observation_terminated_ones_do_not(small: Any) -> None:
    agent = small.agent_with(learning_starts=10_000)
    steps = small.begun(agent)
    wanted: dict[bytes, tuple[bool, bytes]] = {}
    for _ in range(60):
        state = agent.current.astype(np.float32)
        agent.act()
        result = next(steps)
        agent.remember(result)
        for e in range(2):
            wanted[state[e].tobytes()] = bool(result.terminated[e]), result.final_obs[e].astype(np.float32).tobytes()
    sample = agent.experience.memory.sample(300, torch.Generator().manual_seed(0))
    for frames, terminated in zip(sample.frames, sample.terminated, strict=True):
        ended, final = wanted[frames[0].numpy().tobytes()]
        assert bool(terminated) == ended
        assert ended or frames[1].numpy().tobytes() == final
    assert 0 < int(sample.terminated.sum()) < 300


# -- learning --------------------------------------------------------------------------------------------
