"""SAC on images: convolutions of its own before each network, rows of pixels in the memory."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.torch_layers import NatureCNN
from torch import Tensor, nn

from supple.agents.encoders import Convolutions
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.agents.sac.update import Transitions
from supple.engine.compile import can_compile
from supple.envs import Picture, StepResult, picture_of
from supple.interventions import StackedConv2d

A, SIDE = 2, 8
IMAGE = picture_of(spaces.Box(0, 255, (3, SIDE, SIDE), np.uint8))
SMALL: dict[str, Any] = {"encoder": "minatar(channels=[4])", "network": "mlp", "num_envs": 1}


def agent_with(small: Any, picture: Picture = IMAGE, numbers: int = 0, dtype: str = "uint8", **changes: Any) -> SAC:
    control = Control(picture.size + numbers, (-1.0,) * A, (1.0,) * A, picture, dtype)
    settings = replace(small.agent_with().settings, **{**SMALL, **changes})
    names = ("a",) if settings.heads == "one" else ("a", "b")
    return SAC(settings, dict.fromkeys(names, control))


def world(rows: int = 1, numbers: int = 0, dtype: type = np.uint8) -> Iterator[StepResult]:
    """Yield steps whose observations are images, and numbers after them."""
    rng = np.random.default_rng(0)

    def seen() -> np.ndarray:
        images, others = rng.integers(0, 256, (rows, IMAGE.size)), 50 + rng.normal(size=(rows, numbers))
        return np.concatenate([images, others], 1).astype(dtype)

    while True:
        terminated, truncated, final = rng.random(rows) < 0.1, rng.random(rows) < 0.1, seen()
        obs = np.where((terminated | truncated)[:, None], seen(), final)
        yield StepResult(obs, rng.normal(size=rows), terminated, truncated, final, [])


def learn(small: Any, agent: SAC, steps: Iterator[StepResult], decisions: int = 16) -> None:
    agent.begin_episodes(next(steps).obs)
    small.live(agent, steps, decisions)


def parameters(agent: SAC) -> list[Tensor]:
    return [p.detach() for learner in agent._all_learners().values() for p in learner.module.parameters()]


# -- Stable-Baselines3 -----------------------------------------------------------------------------------------


class OnlyConvolutions(NatureCNN):
    """SB3's encoder without its linear layer, so that actions are joined to the convolutions' features, as here."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 64) -> None:
        super().__init__(observation_space, features_dim)
        self.linear = nn.Identity()


@pytest.fixture
def theirs() -> sb3.SAC:
    env = FakeImageEnv(screen_height=36, screen_width=36, n_channels=3, discrete=False, channel_first=True)
    env.action_space = spaces.Box(-1, 1, (A,))
    options: dict[str, Any] = {
        "net_arch": [8], "n_critics": 1, "features_extractor_class": OnlyConvolutions,
    }  # fmt: skip
    return sb3.SAC("CnnPolicy", env, policy_kwargs=options, buffer_size=8, seed=0, device="cpu", gamma=0.9)


@pytest.fixture
def ours(small: Any, theirs: sb3.SAC) -> SAC:
    picture = picture_of(theirs.observation_space)
    agent = agent_with(
        small, picture, encoder="nature", hidden=(8,), critics=1, log_std="clipped", temperature=0.3, gamma=0.9
    )
    parts = {
        "features_extractor.cnn.": "body.encoder.", "latent_pi.0.": "body.body.linears.0.", "mu.": "mean.",
        "qf0.0.": "body.body.linears.0.", "qf0.2.": "head.", "log_std.": "log_std.",
    }  # fmt: skip

    def renamed(module: nn.Module, prefix: str = "") -> dict[str, Tensor]:
        found = {}
        for name, value in module.state_dict().items():
            start = next(part for part in parts if name.startswith(part))
            found[prefix + parts[start] + name.removeprefix(start)] = value[None] if prefix else value
        return found

    agent.actor.load_state_dict(renamed(theirs.actor))
    agent.critics.load_state_dict(renamed(theirs.critic, "net."))
    agent.target.load_state_dict(renamed(theirs.critic_target, "net."))
    return agent


def test_losses_and_gradients_are_those_of_stable_baselines3s_cnn_policy(theirs: sb3.SAC, ours: SAC) -> None:
    rng, size = torch.Generator().manual_seed(0), ours.control.observation
    assert sorted(p.numel() for p in theirs.actor.parameters()) == sorted(p.numel() for p in ours.actor.parameters())
    states, next_states = torch.randint(256, (2, 6, size), dtype=torch.uint8, generator=rng)
    images, next_images = states.view(6, 3, 36, 36), next_states.view(6, 3, 36, 36)
    actions, rewards = torch.rand(6, A, generator=rng) * 2 - 1, torch.randn(6, generator=rng)
    terminated = torch.tensor([True, *[False] * 5])
    batch = Transitions(states, actions, rewards, terminated, next_states)
    theirs.actor.action_dist.epsilon = 0.0  # which they add against infinite log-densities
    alpha = 0.3

    torch.manual_seed(1)
    chosen, log_probs = theirs.actor.action_log_prob(images)
    actor_loss = (alpha * log_probs[:, None] - theirs.critic(images, chosen)[0]).mean()
    actor_gradients = torch.autograd.grad(actor_loss, list(theirs.actor.parameters()))
    torch.manual_seed(2)
    with torch.no_grad():
        following, log_probs = theirs.actor.action_log_prob(next_images)
        value = theirs.critic_target(next_images, following)[0][:, 0] - alpha * log_probs
        targets = rewards + 0.9 * value * ~terminated
    critic_loss = nn.functional.mse_loss(theirs.critic(images, actions)[0][:, 0], targets)
    critic_gradients = torch.autograd.grad(critic_loss, list(theirs.critic.parameters()))

    def noise(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return torch.normal(torch.zeros(6, A), torch.ones(6, A))

    found, _ = ours.soft_update.actor_loss_of(states, noise(1))
    torch.testing.assert_close(found, actor_loss, rtol=1e-6, atol=1e-6)
    for mine, wanted in zip(torch.autograd.grad(found, list(ours.actor.parameters())), actor_gradients, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-6)
    found, _ = ours.soft_update.critic_loss_of(batch, noise(2))
    torch.testing.assert_close(found, critic_loss, rtol=1e-6, atol=1e-6)
    for mine, wanted in zip(torch.autograd.grad(found, list(ours.critics.parameters())), critic_gradients, strict=True):
        torch.testing.assert_close(mine[0], wanted, rtol=1e-5, atol=1e-6)


# -- what is read and stored -----------------------------------------------------------------------------------


def test_the_memory_has_the_pixels_as_bytes_and_networks_read_them_unchanged(small: Any) -> None:
    agent, steps = agent_with(small), world()
    learn(small, agent, steps)
    memory = agent.experience.memory
    assert memory.frames.dtype == np.uint8
    sample = memory.sample(8, torch.Generator().manual_seed(0))
    batch = agent._transitions(sample)
    assert batch.states.dtype == torch.uint8
    assert torch.equal(batch.states, sample.frames[:, 0])
    assert torch.equal(agent.inputs.of(agent.current, "a"), torch.from_numpy(agent.current))


@pytest.mark.parametrize("heads", ["one", "environment", "one-hot"])
def test_only_the_numbers_after_an_image_are_normalised(small: Any, heads: str) -> None:
    agent, steps = agent_with(small, numbers=3, dtype="float32", heads=heads), world(numbers=3, dtype=np.float32)
    learn(small, agent, steps, 40)
    states = agent.inputs.of(np.stack([next(steps).obs[0] for _ in range(200)]), "a")
    assert states[:, : IMAGE.size].min() >= 0
    assert states[:, : IMAGE.size].max() == 255
    normalised = states[:, IMAGE.size : IMAGE.size + 3]
    assert normalised.mean().abs() < 0.5
    assert 0.5 < normalised.std() < 2
    assert states.shape[1] == IMAGE.size + 3 + {"one": 0, "environment": 1, "one-hot": 2}[heads]


@pytest.mark.parametrize("network", ["mlp", "simba"])
def test_actor_and_critics_have_convolutions_of_their_own(small: Any, network: str) -> None:
    agent = agent_with(small, network=network)
    critics = agent.critics.net.body.encoder[0]
    assert isinstance(critics, StackedConv2d)
    assert len(critics.weight) == 2
    states, actions = torch.randint(256, (4, IMAGE.size), dtype=torch.uint8), torch.rand(4, A)
    before = agent.actor(states)[0], agent.critics(states, actions)
    with torch.no_grad():
        critics.weight[0] += 1
    after = agent.actor(states)[0], agent.critics(states, actions)
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1][1], after[1][1])
    assert not torch.allclose(before[1][0], after[1][0])
    assert [layer.role for layer in agent.learners["actor"].layers][:2] == ["encoder", "hidden"]


# -- learning --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [(3,), (3, 7)])
def test_kernels_take_the_steps_of_adamw(small: Any, seeds: tuple[int, ...]) -> None:
    several = {"seeds": seeds, "stack": len(seeds)} if len(seeds) > 1 else {}
    agent, steps = agent_with(small, seed=3, learning_starts=8, weight_decay=0.0, **several), world(len(seeds))
    learn(small, agent, steps, 8)
    for learner in agent.learners.values():
        assert learner.layers[0].role == "encoder"
    before = {name: learner.layers[0].module.weight.detach().clone() for name, learner in agent.learners.items()}
    small.live(agent, steps, 1)
    for name, learner in agent.learners.items():
        weight = learner.layers[0].module.weight
        step = 1e-3 * weight.grad / (weight.grad.abs() + 1e-8)  # the first of all
        torch.testing.assert_close(weight.detach(), before[name] - step, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(not can_compile(), reason="torch.compile does not work here")
def test_compiled_updates_on_images_are_those_of_eager_mode(small: Any) -> None:
    eager, compiled = (agent_with(small, compile=compile, heads="environment") for compile in ("off", "on"))
    for agent in (eager, compiled):
        learn(small, agent, world(), 13)
    assert compiled.experience.taken == 3
    for mine, wanted in zip(parameters(compiled), parameters(eager), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


def test_units_of_every_convolution_are_measured(small: Any) -> None:
    agent = agent_with(small, encoder="impala(channels=[4])")
    for learner, body in (
        (agent.learners["actor"], agent.actor.body),
        (agent.learners["critic"], agent.critics.net.body),
    ):
        assert isinstance(body.encoder, Convolutions)
        assert (
            len([unit for unit in learner.units if ".encoder." in f".{unit}"]) == 5
        )  # two in each of two blocks, and one
        assert any("residual" in reason for reason in learner.unwired.values())
