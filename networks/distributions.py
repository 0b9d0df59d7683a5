"""Policies as distributions over actions, in the forms that metrics of change and of entropy compare."""

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Independent, Normal


def independent_categoricals(logits: Tensor, sizes: Sequence[int]) -> Distribution:
    """Return independent choices among `sizes` options each, of which `logits`, (n, Σ sizes), has one after another."""
    padded = torch.nn.utils.rnn.pad_sequence(
        [part.mT for part in logits.split(list(sizes), -1)], batch_first=True, padding_value=-torch.inf
    )  # (choices, options, n): an option that a choice does not have has probability 0
    return Independent(Categorical(logits=padded.permute(2, 0, 1), validate_args=False), 1, validate_args=False)


def independent_bits(logits: Tensor) -> Distribution:
    """Return independent bits, each 1 with probability sigmoid(logit), for logits (n, bits)."""
    return Independent(Bernoulli(logits=logits, validate_args=False), 1, validate_args=False)


def independent_normals(mean: Tensor, std: Tensor) -> Distribution:
    """Return independent Gaussians, for means (n, actions) and standard deviations of this shape or (actions,)."""
    return Independent(Normal(mean, std, validate_args=False), 1, validate_args=False)


def kl_divergence(before: Distribution, now: Distribution) -> Tensor:
    """Return KL(before ‖ now) of each pair of policies, (…) float64, in nats.

    PyTorch's is infinite, 0 or negative where float32 rounds a probability to 0. This one is computed from
    log-probabilities in float64.
    """
    if isinstance(before, Independent) and isinstance(now, Independent):
        return kl_divergence(before.base_dist, now.base_dist).flatten(-before.reinterpreted_batch_ndims).sum(-1)
    if isinstance(before, Normal) and isinstance(now, Normal):
        ratio = (before.scale.double() / now.scale.double()).square()
        distance = ((before.loc.double() - now.loc.double()) / now.scale.double()).square()
        return ((ratio + distance - 1 - ratio.log()) / 2).clamp_min(0.0)
    if isinstance(before, Categorical | Bernoulli) and isinstance(now, Categorical | Bernoulli):
        p, q = (_logits(policy).double().log_softmax(-1) for policy in (before, now))
        return torch.where(p == -torch.inf, 0.0, p.exp() * (p - q)).sum(-1).clamp_min(0.0)
    return torch.distributions.kl_divergence(before, now).double().clamp_min(0.0)


def _logits(policy: Categorical | Bernoulli) -> Tensor:
    """Return the logits of all options, (…, options); of a bit, those of 0 and 1."""
    return torch.stack([policy.logits * 0, policy.logits], -1) if isinstance(policy, Bernoulli) else policy.logits


def greatest_entropy(policy: Distribution) -> float | None:
    """Return the entropy of the uniform policy over the same actions, in nats.

    It is None for continuous policies, and if there is only one action."""
    choices = policy.base_dist if isinstance(policy, Independent) else policy
    if isinstance(choices, Categorical):
        options = (choices.logits[(0,) * len(policy.batch_shape)] > -torch.inf).sum(-1)
    elif isinstance(choices, Bernoulli):
        options = torch.full(policy.event_shape, 2)
    else:
        return None
    return sum(map(log, options.flatten().tolist())) or None
