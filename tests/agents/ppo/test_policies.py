"""The distributions of PPO's actions, against those of torch.distributions."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, distributions

from supple.agents.ppo.policies import Bernoulli, Categorical, Categoricals, Gaussian, Policy, policy_for

N, SIZE = 200, 4
SIZES = (2, 5, 3, 1)  # of independent categorical distributions


class Joint:
    """PyTorch's independent categorical distributions, each with logits of its own."""

    def __init__(self, logits: Tensor) -> None:
        self.each = [distributions.Categorical(logits=part) for part in logits.split(SIZES, -1)]

    def log_prob(self, actions: Tensor) -> Tensor:
        return sum((one.log_prob(column) for one, column in zip(self.each, actions.flatten(1).T, strict=True)))

    def entropy(self) -> Tensor:
        return sum(one.entropy() for one in self.each)


Peer = Callable[[Tensor, Tensor], Any]
PEERS: list[tuple[Policy, Peer]] = [
    (Gaussian(SIZE), lambda mean, log_std: distributions.Independent(distributions.Normal(mean, log_std.exp()), 1)),
    (Categorical(SIZE), lambda logits, _: distributions.Categorical(logits=logits)),
    (Bernoulli(SIZE), lambda logits, _: distributions.Independent(distributions.Bernoulli(logits=logits), 1)),
    (Categoricals(SIZES, (4,)), lambda logits, _: Joint(logits)),
]
every_policy = pytest.mark.parametrize(("policy", "peer"), PEERS, ids=["box", "number", "bits", "numbers"])


def given(policy: Policy, n: int = N) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return outputs of a network, log σ, and actions drawn with them, and their noise."""
    g = torch.Generator().manual_seed(0)
    outputs, log_std = 2 * torch.randn(n, policy.outputs, generator=g), torch.tensor([-1.0, 0.0, 0.5, 2.0])
    noise = policy.noise((n,), g)
    actions = policy.draw(outputs.numpy(), noise.numpy(), log_std if policy.scaled else None)
    assert actions.shape == (n, *policy.shape)
    assert actions.dtype == policy.dtype
    return outputs, log_std, torch.from_numpy(actions), noise


@every_policy
def test_log_probabilities_and_entropies_are_those_of_the_distribution(policy: Policy, peer: Peer) -> None:
    outputs, log_std, actions, noise = given(policy)
    expected, scale = peer(outputs, log_std), log_std if policy.scaled else None
    log_probs = expected.log_prob(actions.to(torch.float32))
    torch.testing.assert_close(policy.log_prob(outputs, actions, scale), log_probs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        policy.log_prob_from_noise(outputs, actions, noise, scale), log_probs, rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(policy.entropy(outputs, scale).expand(N), expected.entropy(), rtol=1e-4, atol=1e-5)
    same = policy.distribution(outputs, scale)
    torch.testing.assert_close(same.log_prob(actions.to(torch.float32)), log_probs, rtol=1e-4, atol=1e-4)
    assert torch.distributions.kl_divergence(same, policy.distribution(outputs.flip(0), scale)).isfinite().all()


@every_policy
def test_gradients_are_those_of_the_distribution(policy: Policy, peer: Peer) -> None:
    """Of log-probability and entropy both, with respect to what the network gives and to log σ."""
    outputs, log_std, actions, _ = given(policy)
    mine, theirs = ([outputs.clone().requires_grad_(), log_std.clone().requires_grad_()] for _ in range(2))
    scale = mine[1] if policy.scaled else None
    (policy.log_prob(mine[0], actions, scale) + policy.entropy(mine[0], scale)).sum().backward()
    expected = peer(*theirs)
    (expected.log_prob(actions.to(torch.float32)) + expected.entropy()).sum().backward()
    torch.testing.assert_close(mine[0].grad, theirs[0].grad, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(mine[1].grad, theirs[1].grad, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("logits", [[0.0, 0.0, 0.0], [1.0, -1.0, 0.3], [5.0, 3.0, 0.0]])
def test_actions_are_drawn_with_their_probabilities(logits: list[float]) -> None:
    n, outputs = 20_000, torch.tensor(logits)
    rows, g = outputs.expand(n, 3).numpy(), torch.Generator().manual_seed(1)
    chosen = Categorical(3).draw(rows, Categorical(3).noise((n,), g).numpy(), None)
    assert chisquare(np.bincount(chosen, minlength=3), n * outputs.double().softmax(0).numpy()).pvalue > 0.001
    bits = Bernoulli(3).draw(rows, Bernoulli(3).noise((n,), g).numpy(), None)
    probability = outputs.sigmoid().numpy()
    deviation = np.sqrt(probability * (1 - probability) / n)
    assert (np.abs(bits.mean(0) - probability) < 4 * deviation).all()
    assert np.abs(np.corrcoef(bits.T) - np.eye(3)).max() < 4 / np.sqrt(n)  # each for itself
    several = Categoricals((1, 2), (2,))
    columns = several.draw(rows, several.noise((n,), g).numpy(), None).T
    assert not columns[0].any()
    assert chisquare(np.bincount(columns[1], minlength=2), n * outputs[1:].double().softmax(0).numpy()).pvalue > 0.001


@every_policy
def test_the_best_action_is_the_likeliest(policy: Policy, peer: Peer) -> None:
    outputs, log_std, actions, _ = given(policy)
    best = torch.from_numpy(policy.best(outputs.numpy())).to(torch.float32)
    expected = peer(outputs, log_std)
    assert (expected.log_prob(best) >= expected.log_prob(actions.to(torch.float32))).all()


@every_policy
def test_noise_of_a_rollout_is_drawn_at_once_from_the_generator_alone(policy: Policy, peer: Peer) -> None:
    torch.manual_seed(0)
    first = policy.noise((5, 2), torch.Generator().manual_seed(3))
    torch.manual_seed(1)
    assert first.shape == (5, 2, policy.outputs)
    assert torch.equal(first, policy.noise((5, 2), torch.Generator().manual_seed(3)))
    assert torch.isfinite(policy.noise((10_000,), torch.Generator())).all()


@pytest.mark.parametrize("logit", [40.0, -40.0])
def test_logits_far_from_zero_give_finite_numbers(logit: float) -> None:
    outputs, one = torch.tensor([[logit, 0.0]]), torch.tensor([[1, 1]])
    for policy, action in ((Categorical(2), torch.tensor([0])), (Bernoulli(2), one)):
        assert torch.isfinite(policy.log_prob(outputs, action, None)).all()
        assert torch.isfinite(policy.entropy(outputs, None)).all()


def test_the_space_of_actions_determines_the_policy() -> None:
    spaces = gym.spaces
    assert policy_for(spaces.Discrete(5)) == Categorical(5) != Categorical(4)
    assert policy_for(spaces.MultiBinary(5)) == Bernoulli(5) != Gaussian(5)
    assert policy_for(spaces.MultiDiscrete([[2, 5], [3, 1]])) == Categoricals(SIZES, (2, 2))
    assert policy_for(spaces.Box(-1, 1, (3,))) == Gaussian(3) != Categorical(3)
