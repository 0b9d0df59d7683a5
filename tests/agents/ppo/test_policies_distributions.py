"""PPO's policies as PyTorch's distributions are equal to the policies themselves."""

import pytest
import torch

from supple.agents.ppo.policies import Bernoulli, Categorical, Gaussian, Policy


@pytest.mark.parametrize("policy", [Gaussian(3), Categorical(3), Bernoulli(3)], ids=repr)
def test_a_distribution_has_the_log_probability_and_entropy_of_its_policy(policy: Policy) -> None:
    draws = torch.Generator().manual_seed(0)
    outputs, log_std = torch.randn(5, 3, generator=draws), torch.randn(3, generator=draws)
    scale = log_std if policy.scaled else None
    same = policy.distribution(outputs, scale)
    noise = policy.noise((5,), draws).numpy()
    actions = torch.from_numpy(policy.draw(outputs.numpy(), noise, scale))
    torch.testing.assert_close(same.log_prob(actions.to(outputs.dtype)), policy.log_prob(outputs, actions, scale))
    torch.testing.assert_close(same.entropy(), policy.entropy(outputs, scale).expand(5))
