"""The action distributions of PPO, one class for each type of action space."""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, distributions
from torch.distributions import Distribution

from supple.networks.distributions import independent_bits, independent_normals

LOG_2PI = math.log(2 * math.pi)
LogStd = Any  # the logarithm of the standard deviation, or None for policies without one
IMPOSSIBLE = torch.finfo(torch.float32).min  # a logit of probability 0, with finite gradients


class Policy(ABC):
    """A distribution over actions, parameterised by `outputs` numbers that a network returns per observation.

    Sampling uses noise that does not depend on the network, so that it can be drawn for a whole rollout at once.
    `log_std` is the logarithm of the standard deviation, (outputs,). It is a separate parameter if `scaled`, and None
    for other distributions. For a stack of agents, all shapes begin with (members,), and that of log_std is
    (members, 1, outputs).
    """

    outputs: int  # numbers that the network returns for one observation
    shape: tuple[int, ...] = ()  # of one action
    dtype: ClassVar[DTypeLike]
    scaled: ClassVar[bool] = False

    @abstractmethod
    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return noise for actions of the batch shape `shape`, (*shape, outputs)."""

    def draw(self, outputs: NDArray[np.float32], noise: NDArray[np.float32], log_std: LogStd) -> np.ndarray:
        """Return one action for each row of outputs and of noise, (n, outputs) → (n, *shape)."""
        return self.best(outputs + noise)

    @abstractmethod
    def best(self, outputs: NDArray[np.float32]) -> np.ndarray:
        """Return the most likely action for each row of outputs, (n, outputs) → (n, *shape)."""

    @abstractmethod
    def log_prob(self, outputs: Tensor, actions: Tensor, log_std: LogStd) -> Tensor:
        """Return the log-probability or log-density of actions (n, *shape), as (n,)."""

    def log_prob_from_noise(self, outputs: Tensor, actions: Tensor, noise: Tensor, log_std: LogStd) -> Tensor:
        """Return the log-probability of the actions that `draw` returned, (n,).

        Args:
            outputs: The outputs of the network, (n, outputs).
            actions: The actions, (n, *shape).
            noise: The noise from which they were drawn, (n, outputs).
            log_std: The logarithm of the standard deviation, (outputs,), or None.
        """
        return self.log_prob(outputs, actions, log_std)

    @abstractmethod
    def entropy(self, outputs: Tensor, log_std: LogStd) -> Tensor:
        """Return the entropy in nats, (n,), or () if it is the same for every observation."""

    @abstractmethod
    def distribution(self, outputs: Tensor, log_std: LogStd) -> Distribution:
        """Return the policy for each row of outputs (n, outputs) as a PyTorch distribution."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # equal policies are interchangeable, not identical

    def __repr__(self) -> str:
        return f"{self.outputs} {type(self).__name__} outputs"


class Gaussian(Policy):
    """A Gaussian policy for `Box`: the network returns the means, and log σ does not depend on the observation."""

    dtype = np.float32
    scaled = True

    def __init__(self, size: int) -> None:
        self.outputs, self.shape = size, (size,)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn((*shape, self.outputs), generator=generator)

    def draw(self, outputs: NDArray[np.float32], noise: NDArray[np.float32], log_std: LogStd) -> np.ndarray:
        return outputs + np.exp(log_std.numpy()) * noise

    def best(self, outputs: NDArray[np.float32]) -> np.ndarray:
        return outputs

    def log_prob(self, outputs: Tensor, actions: Tensor, log_std: LogStd) -> Tensor:
        return self.log_prob_from_noise(outputs, actions, (actions - outputs) * torch.exp(-log_std), log_std)

    def log_prob_from_noise(self, outputs: Tensor, actions: Tensor, noise: Tensor, log_std: LogStd) -> Tensor:
        # The noise alone determines it. Subtracting means that are large would only add rounding errors.
        return (-0.5 * noise.square() - log_std - 0.5 * LOG_2PI).sum(-1)

    def entropy(self, outputs: Tensor, log_std: LogStd) -> Tensor:
        return (log_std + 0.5 * (1 + LOG_2PI)).sum(-1)

    def distribution(self, outputs: Tensor, log_std: LogStd) -> Distribution:
        return independent_normals(outputs, log_std.exp())


class Categorical(Policy):
    """A policy for `Discrete(outputs)`: the network returns logits.

    An action is the argmax of the logits plus Gumbel noise, which is a sample from their softmax (Gumbel 1954;
    Maddison et al. 2014, arXiv 1411.0030)."""

    dtype = np.int64

    def __init__(self, size: int) -> None:
        self.outputs = size

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return Gumbel noise."""
        return torch.empty((*shape, self.outputs)).exponential_(generator=generator).log_().neg_()

    def best(self, outputs: NDArray[np.float32]) -> np.ndarray:
        return outputs.argmax(-1)

    def log_prob(self, outputs: Tensor, actions: Tensor, log_std: LogStd) -> Tensor:
        return F.log_softmax(outputs, -1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, outputs: Tensor, log_std: LogStd) -> Tensor:
        log_probs = F.log_softmax(self._logits(outputs), -1)
        return -(log_probs.exp() * log_probs).sum(tuple(range(outputs.ndim - 1, log_probs.ndim)))

    def distribution(self, outputs: Tensor, log_std: LogStd) -> Distribution:
        return distributions.Categorical(logits=outputs, validate_args=False)

    def _logits(self, outputs: Tensor) -> Tensor:
        return outputs


class Categoricals(Categorical):
    """A policy for `MultiDiscrete`: independent categorical distributions, for which the network returns logits.

    Args:
        sizes: The number of values of each entry of an action, in C order.
        shape: The shape of an action.
    """

    def __init__(self, sizes: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.sizes, self.shape, self.outputs = sizes, shape, sum(sizes)

    def best(self, outputs: NDArray[np.float32]) -> np.ndarray:
        return self._logits(torch.from_numpy(outputs)).argmax(-1).numpy().reshape(*outputs.shape[:-1], *self.shape)

    def log_prob(self, outputs: Tensor, actions: Tensor, log_std: LogStd) -> Tensor:
        log_probs = F.log_softmax(self._logits(outputs), -1)
        return log_probs.gather(-1, actions.flatten(outputs.ndim - 1).unsqueeze(-1)).squeeze(-1).sum(-1)

    def distribution(self, outputs: Tensor, log_std: LogStd) -> Distribution:
        entries = distributions.Categorical(logits=self._logits(outputs), validate_args=False)
        return distributions.Independent(entries, 1)

    def _logits(self, outputs: Tensor) -> Tensor:
        """Return the logits of each entry, (n, entries, most), where entries with fewer values have impossible ones."""
        most = max(self.sizes)
        if min(self.sizes) == most:
            return outputs.unflatten(-1, (len(self.sizes), most))
        parts = outputs.split(self.sizes, -1)
        return torch.stack([F.pad(part, (0, most - part.shape[-1]), value=IMPOSSIBLE) for part in parts], -2)


class Bernoulli(Policy):
    """A policy for `MultiBinary`: independent bits, for which the network returns logits.

    Args:
        size: The number of bits.
        shape: The shape of an action. By default, (size,).
    """

    dtype = np.int8

    def __init__(self, size: int, shape: tuple[int, ...] | None = None) -> None:
        self.outputs, self.shape = size, (size,) if shape is None else shape

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Return logistic noise: logit + noise is above 0 with probability sigmoid(logit)."""
        return torch.rand((*shape, self.outputs), generator=generator).logit_(eps=1e-7)

    def best(self, outputs: NDArray[np.float32]) -> np.ndarray:
        return (outputs > 0).astype(self.dtype).reshape(*outputs.shape[:-1], *self.shape)

    def log_prob(self, outputs: Tensor, actions: Tensor, log_std: LogStd) -> Tensor:
        drawn = actions.flatten(outputs.ndim - 1).to(outputs.dtype)
        return -F.binary_cross_entropy_with_logits(outputs, drawn, reduction="none").sum(-1)

    def entropy(self, outputs: Tensor, log_std: LogStd) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, outputs.sigmoid(), reduction="none").sum(-1)

    def distribution(self, outputs: Tensor, log_std: LogStd) -> Distribution:
        return independent_bits(outputs)


def policy_for(space: gym.Space) -> Policy:
    """Return the policy for an action space, which must be one that PPO supports (see `agents.spaces`)."""
    if isinstance(space, gym.spaces.Discrete):
        return Categorical(int(space.n))
    if isinstance(space, gym.spaces.MultiDiscrete):
        return Categoricals(tuple(space.nvec.ravel().tolist()), space.shape)
    if isinstance(space, gym.spaces.MultiBinary):
        return Bernoulli(gym.spaces.flatdim(space), space.shape)
    return Gaussian(gym.spaces.flatdim(space))
