"""A stack of PPO agents: each member draws, acts and learns as its run alone."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.policies import Categorical, Gaussian, Policy
from supple.envs import Picture
from supple.interventions import OtherMinibatch
from supple.networks import evaluating
from tests.agents.lives import ENVS, SEEDS, Lives, images, of_seeds, vectors

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
kinds = pytest.mark.parametrize("kind", KINDS)


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

    def acting(network: MultiHead, key: str) -> Callable[[Tensor], Tensor]:
        policy = make_policy(network, key)
        return lambda observations: policy(observations.double())

    monkeypatch.setattr(MultiHead, "_features", staticmethod(of_doubles))
    monkeypatch.setattr(MultiHead, "make_policy", acting)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@kinds
def test_first_weights_are_those_of_the_members_alone(kind: str) -> None:
    for what, ours, theirs in lives_of(kind).pairs():
        assert torch.equal(ours, theirs), what


@pytest.mark.slow
@kinds
def test_a_member_learns_as_alone_in_float64(kind: str, in_float64: None) -> None:
    lives = lives_of(kind)
    lives.live(65)  # 13 updates of four gradient steps each
    lives.compare(1e-10)
    lives.compare_numbers(1e-10)


@kinds
def test_first_updates_are_those_alone(kind: str) -> None:
    lives = lives_of(kind)
    lives.live(5, tolerance=1e-5)
    lives.compare(1e-5)
    lives.compare_numbers(1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "hooks"),
    [
        ("layer", ("fire@0.4", "l2_init(strength=0.01)")),
        ("random", ("snp(noise=0.01)@0.4", "redo(tau=0.9)@every:12")),
        ("gaussian", ("cbp(replacement_rate=0.05,maturity=2)",)),
        ("random", ("reset(toward=fresh)@0.4",)),
        ("random", ("soft_snp(epsilon=0.01)", "swap(activation=rrelu)@0.4")),
        ("gaussian", ("chain(strength=0.1,share=0.1)",)),
    ],
)
def test_hooks_do_to_a_member_what_they_do_alone(kind: str, hooks: tuple[str, ...], in_float64: None) -> None:
    lives = lives_of(kind)
    lives.live(20, *hooks)
    lives.compare(1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "random"])
def test_evaluation_policies_and_measured_losses_are_those_alone(kind: str, in_float64: None) -> None:
    lives = lives_of(kind)
    lives.live(10)
    rows: NDArray[np.float64] = np.stack([next(lives.world).obs[::ENVS] for _ in range(3)], 1)  # (members, 3, D)
    with lives.stack.greedy("a") as policy:
        chosen = policy(rows.reshape(-1, D)).reshape(len(SEEDS), 3, -1)
    learner = lives.stack.learners["agent"]
    losses = list(learner.batches(2))
    total = 0.0
    for member, one in enumerate(lives.alone):
        with one.greedy("a") as policy:
            np.testing.assert_allclose(policy(rows[member]).reshape(3, -1), chosen[member], rtol=0, atol=1e-8)
        own = one.learners["agent"]
        for ours, theirs in zip(losses, own.batches(2), strict=True):
            torch.testing.assert_close(ours[member], theirs, rtol=1e-10, atol=1e-10)
        assert torch.equal(learner.probe()[0][member], own.probe()[0])
        assert own.offers(OtherMinibatch).inputs() is None  # no update is running
        with evaluating(one.network):
            total += float(own.loss().detach())
    with evaluating(lives.stack.network):
        assert float(learner.loss().detach()) == pytest.approx(total, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "random"])
def test_redrawn_networks_are_those_alone(kind: str) -> None:
    lives = lives_of(kind)
    drawn = lives.stack.learners["agent"].redraw()
    for member, one in enumerate(lives.alone):
        for name, value in lives.as_member(member, one.learners["agent"].redraw).items():
            assert torch.equal(drawn[name][member], value)
    lives.compare(0.0)
