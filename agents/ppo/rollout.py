"""The rollout buffer of PPO, and generalised advantage estimation."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .policies import Policy

Array = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class RolloutBatch:
    """The transitions of one rollout, flattened to n = steps × environments rows."""

    observations: Tensor  # (n, d)
    actions: Tensor  # (n, *shape), as drawn, before clipping to the action space
    log_probs: Tensor  # (n,) of the actions under the policy that drew them
    values: Tensor  # (n,) before the update
    advantages: Tensor  # (n,)
    returns: Tensor  # (n,) the value function's target

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.observations, self.actions, self.log_probs, self.values, self.advantages, self.returns)

    def to(self, device: torch.device) -> "RolloutBatch":
        """Return the batch on a device."""
        return RolloutBatch(*(tensor.to(device) for tensor in self.tensors()))


class Rollout:
    """A buffer for `steps` × `num_envs` transitions.

    It never holds dummy transitions, because the vector environments are reset in the step that ends an episode.

    Args:
        steps: Steps of each environment.
        num_envs: Number of environments.
        observation: Length of an observation.
        policy: The policy, which says what an action is.
    """

    def __init__(self, steps: int, num_envs: int, observation: int, policy: Policy) -> None:
        self.steps, self.num_envs = steps, num_envs
        self.observations = np.zeros((steps, num_envs, observation), np.float32)
        self.outputs = np.zeros((steps, num_envs, policy.outputs), np.float32)
        self.actions = np.zeros((steps, num_envs, *policy.shape), policy.dtype)
        self.rewards = np.zeros((steps, num_envs))
        self.terminated = np.zeros((steps, num_envs), bool)
        self.truncated = np.zeros((steps, num_envs), bool)
        self.last: list[tuple[int, int, NDArray[np.float32]]] = []  # (step, env, true last observation)
        self.filled = 0

    def clear(self) -> None:
        self.filled, self.last = 0, []

    def add(
        self,
        observations: NDArray[np.float32],
        outputs: NDArray[np.float32],
        actions: np.ndarray,
        rewards: Array,
        terminated: Bool,
        truncated: Bool,
    ) -> None:
        """Store one step of every environment.

        Args:
            observations: The normalised observations, (num_envs, d).
            outputs: The outputs of the policy for them, (num_envs, outputs).
            actions: The actions, (num_envs, *shape).
            rewards: The rewards to learn from, (num_envs,).
            terminated: Where the step ended an episode with no further reward, (num_envs,).
            truncated: Where a limit ended the episode, (num_envs,).
        """
        t = self.filled
        self.observations[t], self.outputs[t], self.actions[t] = observations, outputs, actions
        self.rewards[t], self.terminated[t], self.truncated[t] = rewards, terminated, truncated
        self.filled += 1

    def add_truncation(self, env: int, observation: NDArray[np.float32]) -> None:
        """Record that the last step truncated the episode of environment `env`, with this final observation."""
        self.last.append((self.filled - 1, env, observation))

    def all_observations(self, following: NDArray[np.float32]) -> Tensor:
        """Return all observations whose values `batch` needs, (steps·num_envs + num_envs + truncations, d)."""
        final = np.array([observation for _, _, observation in self.last], np.float32)
        rows = [self.observations[: self.filled].reshape(-1, following.shape[1]), following]
        return torch.from_numpy(np.concatenate(rows + ([final] if len(final) else [])))

    def batch(
        self, values: Tensor, log_probs: Tensor, gamma: float, lam: float, target_lam: float | None = None
    ) -> RolloutBatch:
        """Return the batch with advantages by GAE(γ, λ) (Schulman et al. 2016).

        A truncated episode bootstraps from the value of its true last observation, a terminated one from 0. In
        neither case do advantages propagate across the end of the episode.

        Args:
            values: The values of the observations that `all_observations` returned, in the same order.
            log_probs: The log-probabilities of the stored actions, (n,).
            gamma: The discount factor γ.
            lam: The λ of the advantages.
            target_lam: The λ of the value targets, advantage + value. 1 gives Monte Carlo returns, None means `lam`.
        """
        shape = (self.filled, self.num_envs)
        n = self.filled * self.num_envs
        all_values = values.numpy().astype(np.float64)
        current, following = all_values[:n].reshape(shape), all_values[n : n + self.num_envs]
        after = np.concatenate([current[1:], following[None]])
        for (t, env, _), value in zip(self.last, all_values[n + self.num_envs :], strict=True):
            after[t, env] = value
        terminated, truncated = self.terminated[: self.filled], self.truncated[: self.filled]
        deltas = self.rewards[: self.filled] + gamma * np.where(terminated, 0.0, after) - current
        goes_on = gamma * ~(terminated | truncated)
        advantages = _sums(deltas, lam * goes_on)
        targets = advantages if target_lam in (None, lam) else _sums(deltas, target_lam * goes_on)

        def flat(array: np.ndarray) -> Tensor:
            # A copy: the batch outlives the rollout, as the probe of the metrics.
            copy = array[: self.filled].reshape(n, *array.shape[2:])
            return torch.from_numpy(copy.astype(np.float32 if copy.dtype == np.float64 else copy.dtype))

        return RolloutBatch(
            flat(self.observations), flat(self.actions), log_probs, values[:n],
            flat(advantages), flat(targets + current),
        )  # fmt: skip


def _sums(terms: Array, carry: NDArray[np.floating]) -> Array:
    """Return sₜ = termsₜ + carryₜ·sₜ₊₁, from the last row to the first, (steps, n)."""
    sums = np.zeros_like(terms)
    running = np.zeros(terms.shape[1:])
    for t in range(len(terms) - 1, -1, -1):
        running = terms[t] + carry[t] * running
        sums[t] = running
    return sums
