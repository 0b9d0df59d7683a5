"""A stack of DQN agents, and its members alone: what tests of stacks of all agents need of them."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.agents.dqn.agent import DQN
from supple.agents.dqn.network import Sizes, ValueNetwork
from supple.agents.encoders import Convolutions
from tests.agents.dqn.worlds import IMAGES, PIXELS, VECTORS, agent_with, world
from tests.agents.lives import ENVS, ROWS, Lives, of_seeds

KINDS: dict[str, tuple[Sizes, dict[str, Any]]] = {
    "vectors": (VECTORS, {"clip_rewards": False}),
    "layer": (VECTORS, {"normalization": "layer", "double_q": True, "loss": "mse", "weight_decay": 0.01}),
    "spectral": (VECTORS, {"normalization": "spectral", "max_grad_norm": 0.1, "initialization": "pytorch"}),
    "random": (VECTORS, {"activation": "rand_smooth_leaky", "double_q": True, "softmax_values": True}),
    "slopes": (VECTORS, {"activation": "prelu(granularity=global)", "target_period": 10, "replay_ratio": 1.5}),
    "images": (PIXELS, {"hidden": (8,), "normalization": "layer", "batch_size": 2}),
    "minatar": (IMAGES, {"hidden": (8,), "normalization": "layer"}),
    "categorical": (VECTORS, {"critic_head": "categorical", "value_range": (-5.0, 5.0), "atoms": 9, "double_q": True}),
    "hl_gauss": (IMAGES, {"hidden": (8,), "critic_head": "hl_gauss", "scale_rewards": 5.0, "atoms": 9}),
    "quantile": (PIXELS, {"hidden": (8,), "critic_head": "quantile", "atoms": 5, "batch_size": 2, "n_step": 3}),
    "rmsprop": (VECTORS, {"optimizer": "rmsprop", "weight_decay": 0.01, "max_grad_norm": 0.1, "double_q": True}),
}


def agent(kind: str, *seeds: int, **changes: Any) -> DQN:
    space, own = KINDS[kind]
    values: dict[str, Any] = {
        "num_envs": ENVS, "hidden": (12, 8), "batch_size": 6, "replay_size": 60, "learning_starts": 8,
        "exploration_steps": 40, "exploration": 0.2, "priming_updates": 2, "target_period": 14, **own,
    }  # fmt: skip
    return agent_with(space, **values | of_seeds(*seeds) | changes)


def lives_of(kind: str, **changes: Any) -> Lives:
    return Lives(partial(agent, kind, **changes), world(KINDS[kind][0], ROWS))


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compute in double precision, where a network would convert its inputs and outputs to single precision."""

    def forward(network: ValueNetwork, x: Tensor) -> Tensor:
        x = x.double()
        if isinstance(network.encoder, Convolutions):
            p = network.encoder.picture
            shape = (p.height, p.width, p.channels) if p.last else (p.channels, p.height, p.width)
            x = x.flatten(network.axis).unflatten(-1, shape) / p.high
            return network.mlp(nn.Sequential.forward(network.encoder, x.movedim(-1, -3) if p.last else x))
        return network.mlp(network.encoder(x))

    monkeypatch.setattr(ValueNetwork, "forward", forward)
    monkeypatch.setattr(DQN, "_outputs", lambda own, network, x: network(x).unflatten(-1, (-1, own.head.outputs)))
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
