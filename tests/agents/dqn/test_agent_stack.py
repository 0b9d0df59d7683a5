"""A stack of DQN agents: each member draws, acts and learns as its run alone."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN
from supple.agents.dqn.loss import TDLoss
from supple.agents.dqn.network import ValueNetwork
from supple.agents.dqn.sizes import Pixels, RowSizes
from supple.agents.encoders import Convolutions
from supple.envs import Picture, StepResult
from supple.registry.errors import UsageError
from tests.agents.lives import ENVS, ROWS, Lives, of_seeds

IMAGES, VECTORS = Pixels(stack=4, height=36, width=36, actions=3), RowSizes(size=5, actions=3)
ROWS_OF_IMAGES = RowSizes(10 * 10 * 3, 3, Picture(3, 10, 10, last=True, high=1.0), bytes=True)  # as MinAtar's
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "vectors": (VECTORS, {"clip_rewards": False}),
    "layer": (VECTORS, {"normalization": "layer", "double_q": True, "loss": "mse", "weight_decay": 0.01}),
    "spectral": (VECTORS, {"normalization": "spectral", "max_grad_norm": 0.1, "initialization": "pytorch"}),
    "random": (VECTORS, {"activation": "rand_smooth_leaky", "double_q": True, "softmax_values": True}),
    "slopes": (VECTORS, {"activation": "prelu(granularity=global)", "target_period": 10, "replay_ratio": 1.5}),
    "images": (
        IMAGES,
        {"hidden": (8,), "encoder": "nature(channels=[8,8,8])", "normalization": "layer", "batch_size": 2},
    ),
    "minatar": (ROWS_OF_IMAGES, {"hidden": (8,), "encoder": "minatar(channels=[4])", "normalization": "layer"}),
    "rmsprop": (VECTORS, {"optimizer": "rmsprop", "weight_decay": 0.01, "max_grad_norm": 0.1, "double_q": True}),
}


def agent(kind: str, *seeds: int, **changes: Any) -> DQN:
    space, own = KINDS[kind]
    values: dict[str, Any] = {
        "env": "a", "steps": 1_000, "num_envs": ENVS, "hidden": (12, 8), "batch_size": 6, "replay_size": 60,
        "learning_starts": 8, "exploration_steps": 40, "exploration": 0.2, "learning_rate": 1e-3, "device": "cpu",
        "priming_updates": 2, "target_period": 14, **own, **of_seeds(*seeds), **changes,
    }  # fmt: skip
    made = DQN(DQNSettings(**values), {"a": space})
    if len(seeds) == 1:
        torch.manual_seed(made.settings.seed)
    return made


def steps(kind: str, seed: int = 0) -> Iterator[StepResult]:
    """Yield steps of the environments of all members, which do not depend on the actions."""
    rng, rows = np.random.default_rng(seed), ROWS
    images = np.zeros((rows, 4, 36, 36), np.uint8)
    while True:
        if KINDS[kind][0] is ROWS_OF_IMAGES:
            final = rng.integers(0, 2, (rows, ROWS_OF_IMAGES.size), np.uint8)
        elif KINDS[kind][0] is IMAGES:
            newest = rng.integers(0, 256, (rows, 1, 36, 36), np.uint8)
            images = final = np.concatenate([images[:, 1:], newest], 1)
        else:
            final = rng.normal(size=(rows, 5)) + 1_000 * (np.arange(rows) // ENVS)[:, None]  # centred by member
        terminated, truncated = rng.random((2, rows)) < 0.1
        obs = final.copy()
        if KINDS[kind][0] is IMAGES:
            obs[terminated | truncated, :-1] = 0
            images = obs
        yield StepResult(obs, 5 * rng.normal(size=rows), terminated, truncated, final, [])


def lives_of(kind: str, **changes: Any) -> Lives:
    return Lives(partial(agent, kind, **changes), steps(kind))


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
    monkeypatch.setattr(TDLoss, "_values", lambda _, network, observations: network(observations))
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.slow
def test_a_member_that_diverges_leaves_the_others_as_they_are(in_float64: None) -> None:
    lives = lives_of("spectral")
    lives.live(10)
    lives.stack.numbers()
    with torch.no_grad():
        for network in (lives.alone[1].network, *lives.alone[1].learner.followers):
            network.mlp[-1].bias.fill_(torch.inf)
        for network in (lives.stack.network, lives.stack.target):
            network.mlp[-1].bias[1] = torch.inf
    lives.live(10)
    assert lives.stack.sound().tolist() == [True, False, True]
    for what, ours, theirs in lives.pairs():
        if "1 " not in what:
            assert float((ours - theirs).abs().max()) <= 1e-10, what
    numbers = lives.stack.numbers()
    assert [bool(np.isfinite(loss)) for loss in numbers["loss/td"]] == [True, False, True]


@pytest.mark.slow
def test_in_bfloat16_first_updates_are_nearly_those_alone() -> None:
    lives = lives_of("layer", precision="bfloat16", weight_decay=0.0)
    lives.live(5)
    lives.compare_numbers(0.02)


@pytest.mark.parametrize(
    ("changes", "stacks"),
    [
        ({}, [(0, 1, 2)]),
        ({"stack": "off"}, [(0,), (1,), (2,)]),
        ({"hidden": (1024, 1024)}, [(0,), (1,), (2,)]),  # a stack saves nothing
        ({"hidden": (1024, 1024), "stack": 3}, [(0, 1, 2)]),
        ({"env": "ALE/Asterix-v5"}, [(0,), (1,), (2,)]),
    ],
)
def test_seeds_are_stacked_where_that_saves_time(changes: dict[str, Any], stacks: list[tuple[int, ...]]) -> None:
    settings = DQNSettings(**{"env": "CartPole-v1", "steps": 40_000, "device": "cpu", **changes})
    assert list(settings.group((0, 1, 2))) == stacks


def test_stacks_of_atari_games_on_a_cpu_are_refused_in_one_line() -> None:
    settings = DQNSettings(env="asterix", steps=40_000, device="cpu", stack=2)
    with pytest.raises(UsageError, match=r"^--stack 2: on a CPU, .* Atari games are no faster in a stack$"):
        settings.group((0, 1))
