"""Churn: how far the parameters and outputs of a network moved since the last measurement.

Tang et al. 2025 (arXiv:2506.00592) measure the change by one update, on inputs that the update did not use. Here it is
the change between two measurements, on recent inputs, which needs no additional pass per update.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.distributions import Distribution

from supple.networks.distributions import kl_divergence


@torch.no_grad()
def update_ratio(before: Iterable[Tensor], now: Iterable[Tensor]) -> Tensor:
    """Return ‖θ′ − θ‖/‖θ‖ of parameters before and now, several tensors (networks, size) → (networks,) float64.

    It is in [0, ∞), and NaN if θ is zero.
    """
    pairs = [(new - old, old) for old, new in zip(before, now, strict=True)]
    moved, size = (
        torch.linalg.vector_norm(torch.stack([_norms(part) for part in parts]), dim=0)
        for parts in zip(*pairs, strict=True)
    )
    return torch.where(size > 0, moved / size, torch.nan)


def _norms(part: Tensor) -> Tensor:
    return torch.linalg.vector_norm(part, dim=1, dtype=torch.float64)


@torch.no_grad()
def policy_churn(before: Distribution | Tensor, now: Distribution | Tensor) -> Tensor:
    """Return the mean change of a policy over inputs, (), or that of each policy of a stack, (members,).

    For distributions with a batch of inputs, (n,) or (members, n), it is the mean of KL(before ‖ now), in nats, in
    [0, ∞): infinite if an action has become impossible, NaN if the policy of an input is not defined. For the actions
    of a deterministic policy, (n,) or (members, n), it is the share of inputs with another action, in [0, 1] (Schaul et
    al. 2022, arXiv:2206.00730). Raises ValueError if the two are of different kinds.
    """
    if isinstance(before, Tensor) and isinstance(now, Tensor):
        return (before != now).double().mean(-1)
    if isinstance(before, Distribution) and isinstance(now, Distribution):
        return kl_divergence(before, now).mean(-1)
    raise ValueError(
        f"policy_churn: needs two distributions or the actions of two policies, got {type(before).__name__} and "
        f"{type(now).__name__}"
    )


@torch.no_grad()
def value_churn(before: Tensor, now: Tensor) -> Tensor:
    """Return the mean |V′ − V| of values, (networks, n) → (networks,) float64, in their own unit."""
    return (now - before).double().abs().mean(1)
