"""A stack of PPO agents: each member draws, acts and learns as its run alone."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.policies import Categorical, Gaussian, Policy
from supple.envs import Picture
from tests.agents.lives import ENVS, Lives, images, of_seeds, vectors

D = 4
KINDS: dict[str, tuple[Policy, dict[str, Any]]] = {
    "gaussian": (Gaussian(2), {"share_value": True, "clip_value": True, "entropy_coefficient": 0.01}),
    "layer": (Categorical(3), {"normalization": "layer", "adapter": 5, "advantage_scope": "batch"}),
    "spectral": (Categorical(3), {"normalization": "spectral", "max_grad_norm": 0.1, "target_lambda": 1.0}),
    "random": (Categorical(3), {"activation": "rand_smooth_leaky", "normalize_observations": False}),
    "rows": (Gaussian(1), {"activation": "rrelu"}),  # draws for each row, of which members have different numbers
    "image": (Categorical(3), {"encoder": "minatar(channels=[3,2])", "max_grad_norm": 0.1}),
    "residual": (Gaussian(1), {"encoder": "impala(channels=[2,2])", "activation": "rrelu", "share_value": False}),
}
PICTURE = Picture(2, 5, 6, last=True)
SPACES = {"image": PolicySpace(PICTURE.size, Categorical(3), "uint8", PICTURE)}
SPACES["residual"] = SPACES["image"]._replace(policy=Gaussian(1))


def agent(kind: str, *seeds: int, **changes: Any) -> PPO:
    policy, own = KINDS[kind]
    values: dict[str, Any] = {
        "env": "a", "steps": 1_000, "num_envs": ENVS, "rollout_steps": 5, "epochs": 2, "minibatch_size": 4,
        "hidden": (12, 8), "adapter": 0, "learning_rate": 1e-3, "compile": "off", **own, **of_seeds(*seeds), **changes,
    }  # fmt: skip
    made = PPO(PPOSettings(**values), {"a": SPACES.get(kind) or PolicySpace(D, policy)})
    if len(seeds) == 1:
        torch.manual_seed(made.settings.seed)
    return made


def lives_of(kind: str, **changes: Any) -> Lives:
    world = images(PICTURE.size) if kind in SPACES else vectors(D)
    return Lives(partial(agent, kind, **changes), world)


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compute in double precision, where rollouts have single precision."""
    features, make_policy = MultiHead._features, MultiHead.make_policy

    def of_doubles(observation: Tensor, key: str, adapters: nn.ModuleDict, body: nn.Sequential) -> Tensor:
        return features(observation.double(), key, adapters, body)

    def acting(network: MultiHead, key: str, compiled: bool = False) -> Callable[[Tensor], Tensor]:
        policy = make_policy(network, key)
        return lambda observations: policy(observations.double())

    monkeypatch.setattr(MultiHead, "_features", staticmethod(of_doubles))
    monkeypatch.setattr(MultiHead, "make_policy", acting)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("kind", SPACES)
def test_values_of_images_part_by_part_are_those_alone(
    kind: str, in_float64: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.agents.ppo.agent.IMAGES", 5)  # of 12 and more
    lives = lives_of(kind)
    lives.live(10)
    lives.compare(1e-8)
