"""A stack of DQN agents: each member draws, acts and learns as its run alone."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
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
from supple.engine.hooks.driver import HookDriver
from supple.engine.storage import checkpoint
from supple.envs import Picture, StepResult
from supple.interventions import OtherMinibatch
from supple.networks import evaluating
from supple.registry.errors import UsageError
from tests.agents.lives import ENVS, ROWS, SEEDS, Lives, attached, of_seeds

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
kinds = pytest.mark.parametrize("kind", KINDS)


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


@kinds
def test_first_weights_are_those_of_the_members_alone(kind: str) -> None:
    lives = lives_of(kind)
    for what, ours, theirs in lives.pairs():
        assert torch.equal(ours, theirs), what


@pytest.mark.slow
@kinds
def test_a_member_learns_as_alone_in_float64(kind: str, in_float64: None) -> None:
    lives = lives_of(kind)
    lives.live(33)
    assert lives.stack.experience.taken >= 50
    lives.compare(1e-10)
    lives.compare_numbers(1e-10)


@kinds
def test_first_updates_are_those_alone(kind: str) -> None:
    lives = lives_of(kind)
    lives.live(5)
    assert lives.stack.experience.taken >= 4
    lives.compare(1e-5)
    lives.compare_numbers(1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "hooks"),
    [
        ("images", ("fire@0.4", "redo(tau=0.9)@every:12")),
        ("random", ("snp(noise=0.01)@0.4", "l2_init(strength=0.01)")),
        ("images", ("cbp(replacement_rate=0.05,maturity=2)",)),
        ("minatar", ("fire@0.4", "redo(tau=0.9)@every:12", "l2_init(strength=0.01)")),
        ("minatar", ("cbp(replacement_rate=0.05,maturity=2)", "snp(noise=0.01)@0.4")),
        ("rmsprop", ("redo(tau=0.9)@every:12", "injection@0.4", "reset(toward=fresh)@0.6")),
        ("random", ("injection@0.4", "reset(toward=fresh)@0.6")),
        ("random", ("soft_snp(epsilon=0.01)", "swap(activation=rrelu)@0.4")),
    ],
)
def test_hooks_do_to_a_member_what_they_do_alone(kind: str, hooks: tuple[str, ...], in_float64: None) -> None:
    lives = lives_of(kind)
    lives.live(12, *hooks)
    lives.compare(1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "images", "minatar"])
def test_a_stack_continues_from_its_state_bit_for_bit(kind: str, tmp_path: Path) -> None:
    hooks = "cbp(replacement_rate=0.05,maturity=2)", "soft_snp(epsilon=0.01)"
    whole, resumed = agent(kind, *SEEDS), agent(kind, *SEEDS)
    drivers, world = [attached(hooks, one) for one in (whole, resumed)], steps(kind)
    whole.begin_episodes(next(world).obs)
    for _ in range(8):
        live_once(whole, next(world), drivers[0])
    whole.numbers()
    live_once(whole, next(world), drivers[0])
    folder = checkpoint.save(tmp_path, 1, {"agent": whole.state_dict(), "hooks": drivers[0].state_dict()}, "run")
    state = checkpoint.load(folder, "run")
    resumed.load_state_dict(state["agent"])
    drivers[1].load_state_dict(state["hooks"])
    first = next(world)
    whole.begin_episodes(first.obs)
    resumed.begin_episodes(first.obs)
    for _ in range(5):
        result = next(world)
        for one, driver in zip((whole, resumed), drivers, strict=True):
            live_once(one, result, driver)
        assert np.array_equal(whole.actions, resumed.actions)
    for ours, theirs in zip(whole.network.state_dict().values(), resumed.network.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    assert whole.numbers() == resumed.numbers()
    with whole.greedy("a") as one, resumed.greedy("a") as other:
        assert np.array_equal(one(first.obs), other(first.obs))


def live_once(one: DQN, result: StepResult, hooks: HookDriver) -> None:
    one.act()
    one.remember(result)
    one.update(hooks, last=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "images"])
def test_evaluation_policies_and_measured_losses_are_those_alone(kind: str, in_float64: None) -> None:
    lives = lives_of(kind)
    lives.live(10)
    observations = np.stack([next(lives.world).obs for _ in range(3)], 1)  # three episodes of each member
    rows = observations[::ENVS].reshape(-1, *observations.shape[2:])
    with lives.stack.greedy("a") as policy:
        chosen = policy(rows).reshape(-1, 3)
    learner = lives.stack.learner
    losses, another = list(learner.batches(2)), learner.offers(OtherMinibatch).inputs()
    total = 0.0
    for member, one in enumerate(lives.alone):
        with one.greedy("a") as policy:
            assert np.array_equal(policy(rows.reshape(3, 3, *rows.shape[1:])[member]), chosen[member])
        own = one.learner
        for ours, theirs in zip(losses, own.batches(2), strict=True):
            torch.testing.assert_close(ours[member], theirs, rtol=1e-10, atol=1e-10)
        assert torch.equal(another[0][member], own.offers(OtherMinibatch).inputs()[0])
        assert torch.equal(learner.probe()[0][member], own.probe()[0])
        with evaluating(one.network):
            total += float(own.loss().detach())
    with evaluating(lives.stack.network):
        assert float(learner.loss().detach()) == pytest.approx(total, rel=1e-10)


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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "images"])
def test_redrawn_networks_are_those_alone(kind: str) -> None:
    lives = lives_of(kind)
    drawn = lives.stack.learner.redraw()
    for member, one in enumerate(lives.alone):
        for name, value in lives.as_member(member, one.learner.redraw).items():
            assert torch.equal(drawn[name][member], value)
    lives.compare(0.0)
