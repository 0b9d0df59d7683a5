import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.buffers import RolloutBuffer

from supple.agents.ppo.network import PolicySpace
from supple.agents.ppo.policies import Bernoulli, Categorical, Gaussian, Policy
from supple.agents.ppo.rollout import Rollout, RolloutBatch

GAMMA, LAM = 0.97, 0.9


def filled(rng: np.random.Generator, steps: int, envs: int, truncations: bool, capacity: int | None = None) -> Rollout:
    """Return a rollout of random data in which about a third of the steps end an episode."""
    rollout = Rollout(capacity or steps, (envs,), PolicySpace(3, Gaussian(2)))
    for _ in range(steps):
        terminated = rng.random(envs) < 0.2
        truncated = (rng.random(envs) < 0.2) & ~terminated & truncations
        rollout.add(
            rng.normal(size=(envs, 3)).astype(np.float32),
            np.zeros((envs, 2), np.float32),
            rng.normal(size=(envs, 2)).astype(np.float32),
            rng.normal(size=envs),
            terminated,
            truncated,
        )
        if truncated.any():
            rollout.add_truncations(truncated, rng.normal(size=(envs, 3)).astype(np.float32))
    return rollout


def value(observations: torch.Tensor) -> torch.Tensor:
    return observations.sum(-1) + observations[..., 0].sin()


def batch_of(rollout: Rollout, following: np.ndarray, target_lam: float | None = None) -> RolloutBatch:
    n = rollout.filled * rollout.shape[0]
    return rollout.batch(value(rollout.all_observations(following)), torch.zeros(n), GAMMA, LAM, target_lam)


def test_advantages_equal_those_of_stable_baselines3_where_nothing_is_truncated() -> None:
    rng = np.random.default_rng(0)
    steps, envs = 40, 3
    rollout = filled(rng, steps, envs, truncations=False)
    following = rng.normal(size=(envs, 3)).astype(np.float32)
    ours = batch_of(rollout, following)

    box = gym.spaces.Box(-1, 1, (3,))
    theirs = RolloutBuffer(steps, box, gym.spaces.Box(-1, 1, (2,)), "cpu", LAM, GAMMA, envs)
    theirs.rewards[:] = rollout.rewards
    theirs.values[:] = ours.values.reshape(steps, envs)
    theirs.episode_starts[1:] = rollout.terminated[:-1]
    theirs.compute_returns_and_advantage(value(torch.from_numpy(following)), rollout.terminated[-1])
    np.testing.assert_allclose(ours.advantages.reshape(steps, envs), theirs.advantages, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.returns.reshape(steps, envs), theirs.returns, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 12), envs=st.integers(1, 3))
def test_advantages_and_monte_carlo_targets_are_sums_over_each_episode_that_bootstrap_from_its_true_end_if_truncated(
    seed: int, steps: int, envs: int
) -> None:
    rng = np.random.default_rng(seed)
    rollout = filled(rng, steps, envs, truncations=True)
    following = rng.normal(size=(envs, 3)).astype(np.float32)
    batch = batch_of(rollout, following, target_lam=1.0)
    values = value(torch.from_numpy(rollout.observations)).numpy()
    running = value(torch.from_numpy(following)).numpy()
    after = np.concatenate([values[1:], running[None]])
    for t, cut, last in rollout.cuts:
        after[t, cut] = value(torch.from_numpy(last)).numpy()[cut]
    after[rollout.terminated] = 0
    done, deltas = rollout.terminated | rollout.truncated, rollout.rewards + GAMMA * after - values
    advantages, returns = np.zeros((2, steps, envs))
    for t in range(steps):
        weight = np.ones(envs)
        for k in range(t, steps):  # Â_t = Σ_k (γλ)^k δ_{t+k}, up to the end of this episode or of the rollout
            advantages[t] += weight * deltas[k]
            weight *= GAMMA * LAM * ~done[k]
    for t in reversed(range(steps)):
        running = returns[t] = rollout.rewards[t] + GAMMA * np.where(done[t], after[t], running)
    np.testing.assert_allclose(batch.advantages.reshape(steps, envs), advantages, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(batch.returns.reshape(steps, envs), returns, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("policy", [Categorical(4), Bernoulli(4)])
def test_actions_keep_the_shape_and_the_type_of_their_space(policy: Policy) -> None:
    rollout = Rollout(3, (2,), PolicySpace(5, policy))
    actions = np.ones((2, *policy.shape), policy.dtype)
    for _ in range(3):
        rollout.add(np.zeros((2, 5), np.float32), np.zeros((2, 4), np.float32), actions, *(np.zeros(2) for _ in "123"))
    batch = rollout.batch(torch.zeros(3 * 2 + 2), torch.zeros(6), GAMMA, LAM)
    assert batch.actions.shape == (6, *policy.shape)
    assert batch.actions.numpy().dtype == policy.dtype


def test_a_rollout_that_is_cut_short_yields_its_own_rows_only() -> None:
    whole = filled(np.random.default_rng(2), 7, 2, truncations=True)
    roomy = filled(np.random.default_rng(2), 7, 2, truncations=True, capacity=30)
    following = np.ones((2, 3), np.float32)
    for a, b in zip(batch_of(whole, following), batch_of(roomy, following), strict=True):
        assert len(b) == 14
        assert torch.equal(a, b)


def test_a_batch_does_not_change_when_its_rollout_is_filled_again() -> None:
    rng = np.random.default_rng(3)
    rollout = filled(rng, 5, 2, truncations=False)
    batch = batch_of(rollout, np.zeros((2, 3), np.float32))
    before = [tensor.clone() for tensor in batch]
    rollout.clear()
    rollout.add(
        np.full((2, 3), 9, np.float32), *2 * [np.full((2, 2), 9, np.float32)], np.full(2, 9.0), *2 * [np.ones(2, bool)]
    )
    assert all(torch.equal(a, b) for a, b in zip(before, batch, strict=True))


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 8), envs=st.integers(1, 3))
def test_each_member_of_a_stack_has_the_batch_of_its_rollout_alone(seed: int, steps: int, envs: int) -> None:
    rng = np.random.default_rng(seed)
    alone = [filled(rng, steps, envs, truncations=True) for _ in range(3)]
    following = rng.normal(size=(3, envs, 3)).astype(np.float32)
    stack = Rollout(steps, (3, envs), PolicySpace(3, Gaussian(2)))
    for t in range(steps):
        arrays = ("observations", "outputs", "actions", "rewards", "terminated", "truncated")
        stack.add(*(np.stack([getattr(one, name)[t] for one in alone]) for name in arrays))
        cuts = [{step: (cut, last) for step, cut, last in one.cuts} for one in alone]
        if any(t in one for one in cuts):
            nothing = np.zeros(envs, bool), np.zeros((envs, 3), np.float32)
            stack.add_truncations(*(np.stack([one.get(t, nothing)[i] for one in cuts]) for i in range(2)))
    batch = stack.batch(value(stack.all_observations(following)), torch.zeros(3, steps * envs), GAMMA, LAM)
    for member, rollout in enumerate(alone):
        for ours, theirs in zip(batch, batch_of(rollout, following[member]), strict=True):
            torch.testing.assert_close(ours[member], theirs, rtol=1e-6, atol=1e-6)
