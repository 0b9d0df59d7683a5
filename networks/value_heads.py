"""Heads of value networks: what the outputs of the last layer say about a return, its target, and the loss.

    name         outputs of a value           target                                     loss
    mse          the expected return          r + γ·value                                squared error, or Huber
    categorical  logits of fixed returns      the distribution of r + γ·Z, projected     cross-entropy
    hl_gauss     logits of intervals          a Gaussian around r + γ·value              cross-entropy
    quantile     quantiles at (2i + 1)/(2N)   the quantiles of r + γ·Z                   quantile Huber loss, κ = 1

The value is always the expectation. All functions use the last axis, and keep any axes before it: batches, actions,
critics, members of a stack.

Sources: categorical, Bellemare et al. 2017 (arXiv 1707.06887, C51); hl_gauss, Farebrother et al. 2024 (arXiv
2403.03950, Appendix A); quantile, Dabney et al. 2018 (arXiv 1710.10044, QR-DQN, Equations 9 and 10).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

SIGMA = 0.75  # the Gaussian's deviation in widths of an interval (Farebrother et al., Section 3.1)


def project(returns: Tensor, masses: Tensor, low: float, high: float, atoms: int) -> Tensor:
    """Return a distribution on fixed returns: each mass is divided between its two neighbours (C51, Equation 7).

    Args:
        returns: Where the masses are, (…, k). Those outside [low, high] are moved to its ends.
        masses: How large they are, (…, k).
        low, high: The first and the last of the fixed returns, which have equal distances.
        atoms: The number of fixed returns, at least 2.

    Returns:
        The masses at the fixed returns, (…, atoms).
    """
    step, returns = (high - low) / (atoms - 1), returns.clamp(low, high)
    fixed = torch.linspace(low, high, atoms, dtype=returns.dtype, device=returns.device)
    # clamped for returns that are not finite, so that the other members of a stack are not disturbed
    left = ((returns - low) / step).long().clamp(0, atoms - 2)
    projected = masses.new_zeros(*masses.shape[:-1], atoms)
    for neighbour in (left, left + 1):
        # from its own distance, as in Dopamine: the place on the grid is less accurate in float32
        share = 1 - (returns - fixed[neighbour]).abs() / step
        projected = projected.scatter_add(-1, neighbour, masses * share.clamp(0, 1))
    return projected


def gaussian_histogram(values: Tensor, low: float, high: float, bins: int) -> Tensor:
    """Return the masses in equal intervals of a Gaussian around each value, cut off at both ends (HL-Gauss).

    Args:
        values: The means, (…). Those outside [low, high] are moved to its ends, so that mass is left there.
        low, high: The ends of the first and of the last interval.
        bins: The number of intervals. The deviation is `SIGMA` times their width.

    Returns:
        The masses, (…, bins), of sum 1.
    """
    edges = torch.linspace(low, high, bins + 1, dtype=values.dtype, device=values.device)
    distance = edges - values.clamp(low, high)[..., None]
    below = torch.erf(distance * (bins / (high - low) / SIGMA / 2**0.5))
    return below.diff(dim=-1) / (below[..., -1:] - below[..., :1])


def quantile_huber(quantiles: Tensor, returns: Tensor) -> Tensor:
    """Return the quantile Huber loss with κ = 1, (…): summed over the quantiles, averaged over the returns.

    Args:
        quantiles: The estimated quantiles at (2i + 1)/(2N), i = 0 … N − 1, (…, N).
        returns: Samples of the return, (…, k).
    """
    n = quantiles.shape[-1]
    shares = (torch.arange(n, dtype=quantiles.dtype, device=quantiles.device) + 0.5) / n
    errors = returns[..., None, :] - quantiles[..., None]
    huber = F.smooth_l1_loss(errors, torch.zeros_like(errors), reduction="none")
    return ((shares[:, None] - (errors < 0).to(shares.dtype)).abs() * huber).mean(-1).sum(-1)


def _column(cost: Tensor | float) -> Tensor | float:
    return cost[..., None] if isinstance(cost, Tensor) else cost


@dataclass(frozen=True)
class ValueHead:
    """A head with one output, the value: `mse`. The other heads differ in all that it does.

    Args:
        outputs: The outputs of the network for each value.
        huber: Use the Huber loss with threshold 1 instead of the squared error.
    """

    outputs: int = 1
    huber: bool = False

    def values(self, outputs: Tensor) -> Tensor:
        """Return the expected returns, (…), according to outputs of a network, (…, outputs)."""
        return outputs.squeeze(-1)

    def targets(self, rewards: Tensor, discounts: Tensor, outputs: Tensor, cost: Tensor | float = 0.0) -> Tensor:
        """Return the targets of `losses` for the return r + γ·(Z − cost), (…) or (…, outputs).

        Args:
            rewards: r, (…).
            discounts: γ, or 0 after a termination, (…).
            outputs: Those of the target network for Z, (…, outputs). Gradients are not stopped.
            cost: What is subtracted from Z: in SAC the log-density of the next action times the temperature, (…).
        """
        return rewards + discounts * (self.values(outputs) - cost)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss, (…), of outputs, (…, outputs), for targets that `targets` returned."""
        loss = F.smooth_l1_loss if self.huber else F.mse_loss
        return loss(self.values(outputs), targets, reduction="none")


@dataclass(frozen=True)
class CategoricalHead(ValueHead):
    """A head with the logits of fixed returns at equal distances, 2 or more: `categorical`, C51's.

    Args:
        low, high: The first and the last of the returns.
    """

    outputs: int = 51
    low: float = -10.0
    high: float = 10.0

    def support(self, like: Tensor) -> Tensor:
        """Return the return that each logit stands for, (outputs,), with the type and device of a tensor."""
        return torch.linspace(self.low, self.high, self.outputs, dtype=like.dtype, device=like.device)

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(-1) @ self.support(outputs)

    def targets(self, rewards: Tensor, discounts: Tensor, outputs: Tensor, cost: Tensor | float = 0.0) -> Tensor:
        returns = rewards[..., None] + discounts[..., None] * (self.support(outputs) - _column(cost))
        return project(returns, outputs.softmax(-1), self.low, self.high, self.outputs)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -(targets * outputs.log_softmax(-1)).sum(-1)


@dataclass(frozen=True)
class HLGaussHead(CategoricalHead):
    """A head with the logits of equal intervals from `low` to `high`: `hl_gauss`. Each stands for its centre."""

    def support(self, like: Tensor) -> Tensor:
        half = (self.high - self.low) / self.outputs / 2
        return torch.linspace(self.low + half, self.high - half, self.outputs, dtype=like.dtype, device=like.device)

    def targets(self, rewards: Tensor, discounts: Tensor, outputs: Tensor, cost: Tensor | float = 0.0) -> Tensor:
        means = rewards + discounts * (self.values(outputs) - cost)
        return gaussian_histogram(means, self.low, self.high, self.outputs)


@dataclass(frozen=True)
class QuantileHead(ValueHead):
    """A head with the quantiles of the return at the midpoints of equal shares: `quantile`, QR-DQN's."""

    outputs: int = 200

    def values(self, outputs: Tensor) -> Tensor:
        return outputs.mean(-1)

    def targets(self, rewards: Tensor, discounts: Tensor, outputs: Tensor, cost: Tensor | float = 0.0) -> Tensor:
        return rewards[..., None] + discounts[..., None] * (outputs - _column(cost))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return quantile_huber(outputs, targets)
