"""What is computed of policies as distributions."""

from math import log

import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Independent, Normal

from supple.networks.distributions import greatest_entropy


@pytest.mark.parametrize("batch", [(), (5,), (3, 5)])  # of a stack, the members come first
def test_the_greatest_entropy_is_that_of_one_policy(batch: tuple[int, ...]) -> None:
    logits = torch.randn(*batch, 2, 3)
    assert greatest_entropy(Categorical(logits=logits[..., 0, :])) == pytest.approx(log(3))
    assert greatest_entropy(Independent(Categorical(logits=logits), 1)) == pytest.approx(2 * log(3))
    assert greatest_entropy(Independent(Bernoulli(logits=logits[..., 0]), 1)) == pytest.approx(2 * log(2))
    logits[..., 0] = -torch.inf
    assert greatest_entropy(Categorical(logits=logits[..., 0, :])) == pytest.approx(log(2))
    assert greatest_entropy(Categorical(logits=logits[..., 1:2])) is None
    assert greatest_entropy(Independent(Normal(logits[..., 1:], 1.0), 1)) is None
