"""A stack of SAC agents, and its members alone: what tests of stacks of all agents need of them."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.sac.agent import SAC
from supple.agents.sac.networks import Actor, Critics
from supple.interventions import Learner
from tests.agents.lives import ENVS, Lives, images, of_seeds, vectors
from tests.agents.sac.worlds import CONTROL, IMAGES, D, agent_with

RANGE: dict[str, Any] = {"critic_head": "categorical", "atoms": 7, "value_range": (-3.0, 3.0), "weight_decay": 0.0}
KINDS: dict[str, dict[str, Any]] = {
    "simba": {"network": "simba", "target_entropy": -1.0, "heads": "one-hot"},
    "mlp": {"network": "mlp", "normalization": "layer", "critics": 3, "replay_ratio": 1.5, "priming_updates": 20},
    "spectral": {"network": "mlp", "normalization": "spectral", "critics": 1, "heads": "environment"},
    "random": {"network": "mlp", "activation": "rand_smooth_leaky", "normalize_observations": False},
    "images": {"network": "mlp", "hidden": (8,), "log_std": "clipped", "encoder": "minatar(channels=[4])"},
    "residual": {"network": "simba", "encoder": "impala(channels=[4])"},
    "simba_v2": {"network": "simba_v2", "heads": "environment", **RANGE},
    "flash": {"network": "flash", "policy_delay": 2, "noise_repeat": 16, **RANGE, "critic_head": "hl_gauss"},
    "crossq": {
        "network": "crossq",
        "actor_blocks": 2,
        "policy_delay": 3,
        "heads": "one-hot",
        "critic_head": "quantile",
    },
}


def agent(kind: str, *seeds: int, **changes: Any) -> SAC:
    own = {**KINDS[kind], **of_seeds(*seeds), **changes}
    space: Any = IMAGES if "encoder" in own else CONTROL
    if "heads" in own:
        space = {"b": CONTROL, "a": CONTROL}  # the one that is lived in is not the first
    made = agent_with(space, **{"num_envs": ENVS, "learning_starts": 6, **own})
    if len(seeds) == 1:
        torch.manual_seed(made.settings.seed)
    return made


class SACLives(Lives):
    """Lives that also compare the temperature, the last losses and the running statistics."""

    def learners(self, one: SAC) -> Mapping[str, Learner]:
        return one._all_learners()

    def pairs(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        yield from super().pairs()
        for member, one in enumerate(self.alone):
            for name, loss in one.soft_update.latest.items():
                yield f"loss {member} {name}", self.stack.soft_update.latest[name][member], loss

    def compare(self, tolerance: float) -> None:
        super().compare(tolerance)
        ours, key = self.stack.inputs, self.stack.inputs.key
        for member, one in enumerate(self.alone):
            np.testing.assert_array_equal(ours.statistics[key].mean[member], one.inputs.statistics[key].mean)
            np.testing.assert_array_equal(ours.centres[key].offset[member], one.inputs.centres[key].offset)


def lives_of(kind: str, **changes: Any) -> Lives:
    world = images(IMAGES.observation) if "encoder" in KINDS[kind] else vectors(D)
    return SACLives(partial(agent, kind, **changes), world)


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compute in double precision also where acting and the memory have single precision."""
    actor, critics = Actor.forward, Critics.forward
    monkeypatch.setattr(Actor, "forward", lambda network, x: actor(network, x.double()))
    monkeypatch.setattr(Critics, "forward", lambda network, x, a: critics(network, x.double(), a.double()))
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
