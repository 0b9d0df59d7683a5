"""The rollout buffer of PPO, and generalised advantage estimation."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supple.metrics.arrays import Array

from .network import PolicySpace

Bool = NDArray[np.bool_]
Integers = NDArray[np.int64]
Rows = NDArray[Any]  # normalised observations, in the type that the network reads


class RolloutBatch(NamedTuple):
    """The transitions of one rollout, flattened to n = steps × environments rows, of each member of a stack."""

    observations: Tensor  # (*stack, n, d)
    actions: Tensor  # (*stack, n, *shape), as drawn, before clipping to the action space
    log_probs: Tensor  # (*stack, n) of the actions under the policy that drew them
    values: Tensor  # (*stack, n) before the update
    advantages: Tensor  # (*stack, n)
    returns: Tensor  # (*stack, n) the value function's target

    @property
    def size(self) -> int:
        """The number of rows, n."""
        return self.returns.shape[-1]

    def to(self, device: torch.device) -> "RolloutBatch":
        """Return the batch on a device."""
        return RolloutBatch(*(tensor.to(device) for tensor in self))

    def take(self, rows: Tensor) -> "RolloutBatch":
        """Return these rows of each member, (*stack, k), in this order."""
        if rows.ndim == 1:
            return RolloutBatch(*(tensor[rows] for tensor in self))
        members = torch.arange(len(rows), device=rows.device)[:, None]
        return RolloutBatch(*(tensor[members, rows] for tensor in self))

    def thin(self, period: int) -> "RolloutBatch":
        """Return every `period`-th row, as views."""
        stack = (slice(None),) * (self.returns.ndim - 1)
        return RolloutBatch(*(tensor[(*stack, slice(None, None, period))] for tensor in self))

    def split(self, size: int) -> list["RolloutBatch"]:
        """Return parts of this number of rows each, as views; the last one may have fewer."""
        axis = self.returns.ndim - 1
        parts = zip(*(tensor.split(size, axis) for tensor in self), strict=True)
        return [RolloutBatch(*part) for part in parts]


class Rollout:
    """A buffer for `steps` transitions of each environment.

    It never holds dummy transitions, because the vector environments are reset in the step that ends an episode.

    Args:
        steps: Steps of each environment.
        shape: The number of environments, (num_envs,), or for a stack (members, num_envs).
        space: The environments' observations, and the policy, which says what an action is.
    """

    def __init__(self, steps: int, shape: tuple[int, ...], space: PolicySpace) -> None:
        self.steps, self.shape = steps, shape
        policy = space.policy
        self.observations: Rows = np.zeros((steps, *shape, space.observation), space.dtype)
        self.outputs = np.zeros((steps, *shape, policy.outputs), np.float32)
        self.actions = np.zeros((steps, *shape, *policy.shape), policy.dtype)
        self.rewards = np.zeros((steps, *shape))
        self.terminated = np.zeros((steps, *shape), bool)
        self.truncated = np.zeros((steps, *shape), bool)
        # of truncated episodes: (step, environments, their true last observations), with the rows of all environments
        self.cuts: list[tuple[int, Bool, Rows]] = []
        self.filled = 0

    def clear(self) -> None:
        self.filled, self.cuts = 0, []

    def add(
        self,
        observations: Rows,
        outputs: NDArray[np.float32],
        actions: np.ndarray,
        rewards: Array,
        terminated: Bool,
        truncated: Bool,
    ) -> None:
        """Store one step of every environment.

        Args:
            observations: The normalised observations, (*shape, d).
            outputs: The outputs of the policy for them, (*shape, outputs).
            actions: The actions, (*shape, …).
            rewards: The rewards to learn from, (*shape,).
            terminated: Where the step ended an episode with no further reward, (*shape,).
            truncated: Where a limit ended the episode, (*shape,).
        """
        t = self.filled
        self.observations[t], self.outputs[t], self.actions[t] = observations, outputs, actions
        self.rewards[t], self.terminated[t], self.truncated[t] = rewards, terminated, truncated
        self.filled += 1

    def add_truncations(self, cut: Bool, observations: Rows) -> None:
        """Record that the last step truncated some episodes.

        Args:
            cut: Where it did, (*shape,).
            observations: The final observations of all environments, of which those are kept, (*shape, d).
        """
        self.cuts.append((self.filled - 1, cut, observations))

    def truncations(self) -> list[int]:
        """Return the number of truncated episodes of each member; of one agent, one number."""
        counts = np.zeros(self.shape[:-1], int)
        for _, cut, _ in self.cuts:
            counts += cut.sum(-1)
        return counts.ravel().tolist()

    def all_observations(self, following: Rows) -> Tensor:
        """Return all observations whose values `batch` needs, (*stack, steps·num_envs + num_envs + truncations, d).

        The members of a stack have as many rows as the one with the most truncations.
        """
        rows = [self.flatten(self.observations), following]
        if self.cuts:
            final, _, _ = self._final_observations()
            rows.append(final)
        return torch.from_numpy(np.concatenate(rows, -2))

    def _final_observations(self) -> tuple[Rows, tuple[Integers, ...], tuple[Integers, ...]]:
        """Return the last observations of truncated episodes, (*stack, most of a member, d), their places and steps.

        The places are the indices of each truncation in that array, the steps its indices in (steps, *shape).
        """
        steps = np.repeat([t for t, _, _ in self.cuts], [np.count_nonzero(cut) for _, cut, _ in self.cuts])
        at = tuple(np.concatenate([np.nonzero(cut) for _, cut, _ in self.cuts], 1))
        stack = at[:-1]  # the members of the truncations, if there are several
        members = stack[0] if stack else np.zeros_like(steps)
        by_member = np.argsort(members, kind="stable")
        number = np.empty_like(steps)  # of each truncation among those of its member
        number[by_member] = np.arange(len(steps)) - np.searchsorted(members[by_member], members[by_member])
        final = np.zeros((*self.shape[:-1], number.max() + 1, self.observations.shape[-1]), self.observations.dtype)
        final[(*stack, number)] = np.concatenate([observations[cut] for _, cut, observations in self.cuts])
        return final, (*stack, number), (steps, *at)

    def flatten(self, array: np.ndarray) -> np.ndarray:
        """Return the filled steps of one of these arrays, (steps, *shape, …), as rows: (*stack, steps·num_envs, …)."""
        filled = array[: self.filled]
        if len(self.shape) > 1:
            filled = np.moveaxis(filled, 0, 1)
        return filled.reshape(*self.shape[:-1], -1, *array.shape[1 + len(self.shape) :])

    def batch(
        self, values: Tensor, log_probs: Tensor, gamma: float, lam: float, target_lam: float | None = None
    ) -> RolloutBatch:
        """Return the batch with advantages by GAE(γ, λ) (Schulman et al. 2016).

        A truncated episode bootstraps from the value of its true last observation, a terminated one from 0. In
        neither case do advantages propagate across the end of the episode.

        Args:
            values: The values of the observations that `all_observations` returned, in the same order.
            log_probs: The log-probabilities of the stored actions, (*stack, n).
            gamma: The discount factor γ.
            lam: The λ of the advantages.
            target_lam: The λ of the value targets, advantage + value. 1 gives Monte Carlo returns, None means `lam`.
        """
        *stack, num_envs = self.shape
        n = self.filled * num_envs
        all_values = values.numpy().astype(np.float64)
        current = all_values[..., :n].reshape(*stack, self.filled, num_envs)
        current = np.moveaxis(current, -2, 0)  # (steps, *shape)
        after = np.concatenate([current[1:], all_values[None, ..., n : n + num_envs]])
        if self.cuts:
            _, places, steps = self._final_observations()
            after[steps] = all_values[..., n + num_envs :][places]
        terminated, truncated = self.terminated[: self.filled], self.truncated[: self.filled]
        deltas = self.rewards[: self.filled] + gamma * np.where(terminated, 0.0, after) - current
        goes_on = gamma * ~(terminated | truncated)
        advantages = _sums(deltas, lam * goes_on)
        targets = advantages if target_lam in (None, lam) else _sums(deltas, target_lam * goes_on)

        def flat(array: np.ndarray) -> Tensor:
            # A copy: the batch outlives the rollout, as the probe of the metrics.
            copy = self.flatten(array)
            return torch.from_numpy(copy.astype(np.float32 if copy.dtype == np.float64 else copy.dtype))

        return RolloutBatch(
            flat(self.observations), flat(self.actions), log_probs, values[..., :n],
            flat(advantages), flat(targets + current),
        )  # fmt: skip


def _sums(terms: Array, carry: NDArray[np.floating]) -> Array:
    """Return sₜ = termsₜ + carryₜ·sₜ₊₁, from the last row to the first, (steps, …)."""
    sums = np.zeros_like(terms)
    running = np.zeros(terms.shape[1:])
    for t in range(len(terms) - 1, -1, -1):
        running = terms[t] + carry[t] * running
        sums[t] = running
    return sums
