"""Outputs of Stable-Baselines3's networks before they become actions, and the policies that these describe.

Actions say little about what a network can learn: those of a discrete policy have no gradient, and those behind a tanh
reach no target outside of (−1, 1). So networks are compared by their logits, or by their means before such a bound.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium import spaces
from stable_baselines3 import A2C, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN
from torch import Tensor, cat, nn
from torch.distributions import Categorical, Distribution

from supple.networks.distributions import independent_bits, independent_categoricals, independent_normals
from supple.networks.unchanged import outputs_with

from .recent import preserve

BOUNDS = (nn.Tanh, nn.Hardtanh)


class PolicyOutputs(nn.Module):
    """A module that returns the outputs of a part of a model's policy before they become actions.

    With state-dependent noise (gSDE), the standard deviations depend on the observation, so its distribution is the
    last of the outputs. Metrics that fit outputs only use the tensors among these.
    """

    def __init__(self, model: BaseAlgorithm, part: nn.Module) -> None:
        super().__init__()
        self.model, self.part = model, part

    def outputs(self, parameters: Mapping[str, Tensor], inputs: Sequence[Any]) -> Any:
        """Return the outputs for the part's inputs and for other parameters of the part (`Learner.answers`)."""
        with preserve(self.model):
            return outputs_with(self, {f"part.{name}": value for name, value in parameters.items()}, inputs)


class ActorCriticOutputs(PolicyOutputs):
    """Logits or means, and values, of the policy of PPO or A2C."""

    model: PPO | A2C

    def forward(self, observations: Any, *_: Any) -> tuple[Any, ...]:
        """Return numbers (n, logits or actions) and values (n, 1)."""
        policy: Any = self.part
        distribution = policy.get_distribution(observations).distribution
        values = policy.predict_values(observations)
        if isinstance(distribution, list):
            return cat([one.logits for one in distribution], 1), values
        if isinstance(self.model.action_space, spaces.Box):
            noise = (independent_normals(distribution.mean, distribution.stddev),) if policy.use_sde else ()
            return distribution.mean, values, *noise
        return distribution.logits, values

    def policy(self, outputs: Sequence[Any], parameters: Mapping[str, Tensor]) -> Distribution:
        """Return the policy over actions, before a tanh if there is one (`Learner.policy`)."""
        numbers, space = outputs[0], self.model.action_space
        if isinstance(space, spaces.Discrete):
            return Categorical(logits=numbers, validate_args=False)
        if isinstance(space, spaces.MultiDiscrete):
            return independent_categoricals(numbers, space.nvec.tolist())
        if isinstance(space, spaces.MultiBinary):
            return independent_bits(numbers)
        if isinstance(outputs[-1], Distribution):
            return outputs[-1]
        return independent_normals(numbers, parameters["log_std"].exp())


class SquashedOutputs(PolicyOutputs):
    """Means, and log-standard deviations if they depend on the observation, of SAC's actor before bounds and tanh."""

    model: SAC

    def forward(self, observations: Any, *_: Any) -> tuple[Any, ...]:
        """Return means (n, actions) and log-standard deviations (n, actions)."""
        actor: Any = self.part
        latent = actor.latent_pi(actor.extract_features(observations, actor.features_extractor))
        mean = remove_bound(actor.mu)(latent)
        if not actor.use_sde:
            return mean, actor.log_std(latent)
        distribution = actor.action_dist.proba_distribution(actor.mu(latent), actor.log_std, latent).distribution
        return mean, independent_normals(distribution.mean, distribution.stddev)

    def policy(self, outputs: Sequence[Any], parameters: Mapping[str, Tensor]) -> Distribution:
        """Return the policy before tanh, whose divergences equal those of the actions, because tanh is invertible."""
        mean, last = outputs
        if isinstance(last, Distribution):
            return last
        return independent_normals(mean, last.clamp(LOG_STD_MIN, LOG_STD_MAX).exp())


class DeterministicOutputs(PolicyOutputs):
    """Actions of TD3's or DDPG's actor before tanh."""

    model: TD3

    def forward(self, observations: Any, *_: Any) -> Tensor:
        """Return numbers (n, actions)."""
        actor: Any = self.part
        numbers: Tensor = remove_bound(actor.mu)(actor.extract_features(observations, actor.features_extractor))
        return numbers


def remove_bound(head: nn.Module) -> nn.Module:
    """Return a head without the bound on its outputs, if this is its last part."""
    return head[:-1] if isinstance(head, nn.Sequential) and isinstance(head[-1], BOUNDS) else head
