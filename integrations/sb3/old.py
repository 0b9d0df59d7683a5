"""Files of older versions of Stable-Baselines3: the settings under which today's networks have the same layers.

before 1.7   PPO and A2C have no `pi_features_extractor` and `vf_features_extractor`, the same module under other names
before 1.8   PPO and A2C may have layers that policy and values share (`net_arch=[64, 64]`), `mlp_extractor.shared_net`
before 1.6   SAC, TD3 and DDPG have no hidden layers behind the features extractor of images or dictionaries

The first needs nothing: a tied tensor may have any of its names. Checked with networks of the versions 1.0 to 1.8.
"""

import inspect
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

Weights = Mapping[str, Tensor]
SHARED = "mlp_extractor.shared_net."
CLASS = "features_extractor_class"
PARTS = {"pi": "policy_net", "vf": "value_net"}


class SharedLayers(BaseFeaturesExtractor):
    """A features extractor, and behind it the layers that policy and values shared before SB3 1.8.

    Args:
        observation_space: The space of the observations.
        extractor_class: The class of the features extractor.
        extractor_kwargs: Its keyword arguments.
        widths: Widths of the shared layers, at least one.
        activation_fn: The activation behind each of them.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        extractor_class: type[BaseFeaturesExtractor],
        extractor_kwargs: dict[str, Any],
        widths: list[int],
        activation_fn: type[nn.Module],
    ) -> None:
        super().__init__(observation_space, widths[-1])
        self.extractor = extractor_class(observation_space, **extractor_kwargs)
        layers: list[nn.Module] = []
        for d_in, d_out in zip([self.extractor.features_dim, *widths], widths, strict=False):
            layers += [nn.Linear(d_in, d_out), activation_fn()]
        self.shared_net = nn.Sequential(*layers)

    def forward(self, observations: Any) -> Tensor:
        """Return the features that policy and values read."""
        features: Tensor = self.shared_net(self.extractor(observations))
        return features


def fit_settings(
    weights: Weights, kind: type[BaseAlgorithm], policy: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a model's settings with those that the layout of its weights implies and nobody gave.

    Args:
        weights: The weights in the file, by name.
        kind: The algorithm.
        policy: The name of the policy, such as MlpPolicy.
        settings: The settings that the user gave.
    """
    kwargs = dict(settings.get("policy_kwargs") or {})
    implied: dict[str, Any] = {}
    if issubclass(kind, OnPolicyAlgorithm):
        implied["use_sde"] = "log_std" in weights and weights["log_std"].ndim == 2
        if widths := _widths(weights, SHARED):
            kwargs = _share_layers(weights, widths, kind.policy_aliases.get(policy), kwargs)
    elif "actor.log_std" in weights:
        implied["use_sde"] = True
    if policy != "MlpPolicy" and "critic.qf0.0.weight" in weights and "critic.qf0.2.weight" not in weights:
        kwargs.setdefault("net_arch", [])
    return {**{name: value for name, value in implied.items() if value}, **settings, "policy_kwargs": kwargs}


def rename_weights(weights: Weights) -> Weights:
    """Return weights under today's names, where a layer of an old version has become part of another module."""
    if not any(name.startswith(SHARED) for name in weights):
        return weights
    return {_rename_weight(name): value for name, value in weights.items()}


def _rename_weight(name: str) -> str:
    if name.startswith(SHARED):
        return name.replace(SHARED, "features_extractor.shared_net.", 1)
    part, dot, rest = name.partition(".")
    return f"{part}.extractor.{rest}" if dot and part.endswith("features_extractor") else name


def _share_layers(
    weights: Weights, widths: list[int], policy: type[BasePolicy] | None, kwargs: dict[str, Any]
) -> dict[str, Any]:
    defaults = {} if policy is None else inspect.signature(policy.__init__).parameters
    chosen = {name: kwargs.get(name, getattr(defaults.get(name), "default", None)) for name in (CLASS, "activation_fn")}
    net_arch = {name: _widths(weights, f"mlp_extractor.{part}.") for name, part in PARTS.items()}
    inner = {
        "extractor_class": chosen[CLASS], "extractor_kwargs": kwargs.get("features_extractor_kwargs", {}),
        "widths": widths, "activation_fn": chosen["activation_fn"],
    }  # fmt: skip
    return {**kwargs, "net_arch": net_arch, CLASS: SharedLayers, "features_extractor_kwargs": inner}


def _widths(weights: Weights, start: str) -> list[int]:
    """Return the numbers of outputs of the Linear layers whose names begin so, in their order."""
    names = (name for name in weights if name.startswith(start) and name.endswith(".weight"))
    layers = [weights[n] for n in sorted(names, key=lambda name: int(name.removeprefix(start).split(".")[0]))]
    for before, layer in pairwise(layers):  # else a small file could ask for layers of any size
        if layer.shape[1:] != before.shape[:1]:
            raise ValueError(f"the layers {start}* do not fit each other: {(*before.shape,)}, then {(*layer.shape,)}")
    return [len(layer) for layer in layers]
