"""SAC's act, remember and update, its state after interventions, and images, beside Stable-Baselines3."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.torch_layers import NatureCNN
from torch import Tensor, nn

from supple.agents.sac.inputs import Control
from supple.agents.sac.update import Transitions
from supple.envs import picture_of
from supple.interventions import StackedConv2d
from supple.networks.unit_vectors import projected
from tests.agents.lives import NO_HOOKS, live
from tests.agents.sac.worlds import IMAGES, PICTURE, SMALL, A, D, agent_with, lived, world
from tests.agents.states import apply, changed, everything, saved


def test_actions_are_random_until_learning_starts_and_then_the_policys() -> None:
    """In evaluations they are its means."""
    agent, steps = agent_with(learning_starts=6, replay_ratio=0.01), world()
    agent.begin_episodes(next(steps).obs)
    for decision in range(0, 12, 2):
        again = torch.Generator()
        again.set_state(agent.exploration.get_state())
        agent.act()
        states = agent.inputs.of(agent.current, "a")
        if decision < 6:
            wanted = 2 * torch.rand(2, A, generator=again) - 1
        else:
            wanted = agent.actor.sample(states, torch.randn(2, A, generator=again))[0]
        np.testing.assert_array_equal(agent.actions, wanted.detach().numpy())
        agent.remember(next(steps))
        agent.update(NO_HOOKS, last=False)
    mean = agent.actor(agent.inputs.of(3 * agent.current, "a"))[0]
    with agent.greedy("a") as policy:
        found = policy(3 * agent.current)
    np.testing.assert_array_equal(found, agent.to_bounds(torch.tanh(mean).detach().numpy()))


@pytest.mark.slow
@settings(max_examples=25)
@given(bounds=st.lists(st.tuples(*[st.floats(-1e4, 1e4, width=32)] * 2).map(sorted), min_size=1, max_size=4))
def test_actions_stay_in_the_box_to_the_last_bit(bounds: list[tuple[float, float]]) -> None:
    """A saturated tanh is ±1: that is a bound of the box, which rounding must not pass."""
    box = gym.spaces.Box(*(np.array(bound, np.float32) for bound in zip(*bounds, strict=True)))
    agent = agent_with(Control(D, tuple(map(float, box.low)), tuple(map(float, box.high))))
    for value in (-1.0, -0.3, 0.0, 0.9999999, 1.0):
        action = agent.to_bounds(np.full((1, len(bounds)), value, np.float32))[0]
        assert box.contains(action)
        wanted = box.low.astype(np.float64) + 0.5 * (value + 1) * (box.high.astype(np.float64) - box.low)
        tiny = np.finfo(np.float32).tiny  # below it, float32 has few digits, or none where denormals are flushed
        np.testing.assert_allclose(action, wanted, rtol=1e-5, atol=tiny + 1e-5 * np.abs([box.low, box.high]).max())


# -- observations --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_networks_read_observations_by_the_statistics_of_all_that_were_acted_on() -> None:
    """Those of the memory too, whenever they were stored."""
    agent, steps, seen = agent_with(num_envs=3, learning_starts=10_000), world(rows=3), []
    agent.begin_episodes(next(steps).obs)
    for count in (50, 150):
        for _ in range(count):
            seen.append(agent.current)
            live(agent, steps, 1)
        every = np.concatenate(seen)
        sample = agent.experience.memory.sample(64, torch.Generator())
        for rows, found in (
            (every[:5], agent.inputs.of(every[:5], "a")),
            (sample.frames[:, 0].double().numpy(), agent._transitions(sample).states),
        ):
            wanted = (rows - every.mean(0)) / np.sqrt(every.var(0) + 1e-8)
            np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.slow
def test_without_normalisation_networks_see_what_the_environment_shows() -> None:
    agent, _ = lived(normalize_observations=False)
    x = torch.randn(3, D)
    for _ in range(2):
        assert torch.equal(agent.inputs.of(x.numpy(), "a"), x)
        agent.load_state_dict(saved(agent))


def test_the_memory_has_the_pixels_as_bytes_and_networks_read_them_unchanged() -> None:
    agent, _ = lived(IMAGES, **SMALL)
    sample = agent.experience.memory.sample(8, torch.Generator())
    assert agent.experience.memory.frames.dtype == np.uint8
    assert agent._transitions(sample).states.dtype == torch.uint8
    assert torch.equal(agent._transitions(sample).states, sample.frames[:, 0])
    assert torch.equal(agent.inputs.of(agent.current, "a"), torch.from_numpy(agent.current))


@pytest.mark.parametrize("heads", ["environment", "one-hot"])
def test_only_the_numbers_after_an_image_are_normalised(heads: str) -> None:
    space = IMAGES._replace(observation=PICTURE.size + 3, dtype="float32")
    agent, steps = lived(space, 40, heads=heads, **SMALL)
    rows = np.concatenate([next(steps).obs for _ in range(200)])
    states = agent.inputs.of(rows, "a")
    np.testing.assert_array_equal(states[:, : PICTURE.size], rows[:, : PICTURE.size])
    normalised = states[:, PICTURE.size : PICTURE.size + 3]
    assert normalised.mean().abs() < 0.5
    assert 0.5 < normalised.std() < 2


def test_actor_and_critics_have_convolutions_of_their_own() -> None:
    agent = agent_with(IMAGES, **SMALL)
    critics = agent.critics.net.body.encoder[0]
    assert isinstance(critics, StackedConv2d)
    states, actions = torch.randint(256, (4, PICTURE.size), dtype=torch.uint8), torch.rand(4, A)
    before = agent.actor(states)[0], agent.critics(states, actions)
    with torch.no_grad():
        critics.weight[0] += 1
    after = agent.actor(states)[0], agent.critics(states, actions)
    assert torch.equal(before[0], after[0])
    assert [torch.allclose(*values) for values in zip(before[1], after[1], strict=True)] == [False, True]
    assert [layer.role for layer in agent.learners["actor"].layers][:2] == ["encoder", "hidden"]


@pytest.mark.slow
@pytest.mark.parametrize("network", ["simba_v2", "flash", "crossq"])
def test_later_networks_learn_behind_convolutions_and_interventions_keep_their_lengths(network: str) -> None:
    agent, steps = lived(IMAGES, **{**SMALL, "network": network, "weight_decay": 0.0})
    before = everything(agent)
    live(agent, steps, 2)
    moved = changed(before, everything(agent))
    assert {f"{name}body.encoder.0.weight" for name in ("actor/0/", "critic/0/net.")} <= set(moved)
    written = apply(agent, "fire")
    assert "body.encoder.0.weight" in written["actor"]
    assert not projected(agent.actor.body.encoder)
    for parts, length in (part.vectors() for module in (agent.actor, agent.critics) for part in projected(module)):
        lengths = torch.cat([part.detach() for part in parts], -1).norm(dim=-1)
        torch.testing.assert_close(lengths, torch.full_like(lengths, length))


class OnlyConvolutions(NatureCNN):
    """SB3's encoder without its linear layer, so that actions are joined to the convolutions' features, as here."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 64) -> None:
        super().__init__(observation_space, features_dim)
        self.linear = nn.Identity()


def renamed(module: nn.Module, prefix: str = "") -> dict[str, Tensor]:
    """Return the parameters of SB3's network under our names."""
    parts = {
        "features_extractor.cnn.": "body.encoder.", "latent_pi.0.": "body.body.linears.0.", "mu.": "mean.",
        "qf0.0.": "body.body.linears.0.", "qf0.2.": "head.", "log_std.": "log_std.",
    }  # fmt: skip
    found = {}
    for name, value in module.state_dict().items():
        start = next(part for part in parts if name.startswith(part))
        found[prefix + parts[start] + name.removeprefix(start)] = value[None] if prefix else value
    return found


def test_losses_and_gradients_are_those_of_stable_baselines3s_cnn_policy() -> None:
    env = FakeImageEnv(screen_height=36, screen_width=36, n_channels=3, discrete=False, channel_first=True)
    env.action_space = spaces.Box(-1, 1, (A,))
    own: dict[str, Any] = {"net_arch": [8], "n_critics": 1, "features_extractor_class": OnlyConvolutions}
    theirs = sb3.SAC("CnnPolicy", env, policy_kwargs=own, buffer_size=8, seed=0, device="cpu", gamma=0.9)
    theirs.actor.action_dist.epsilon = 0.0  # which they add against infinite log-densities
    picture, alpha, rng = picture_of(theirs.observation_space), 0.3, torch.Generator().manual_seed(0)
    ours = agent_with(
        Control(picture.size, (-1.0,) * A, (1.0,) * A, picture, "uint8"), network="mlp", encoder="nature", hidden=(8,),
        critics=1, log_std="clipped", temperature=alpha, gamma=0.9,
    )  # fmt: skip
    ours.actor.load_state_dict(renamed(theirs.actor))
    ours.critics.load_state_dict(renamed(theirs.critic, "net."))
    ours.target.load_state_dict(renamed(theirs.critic_target, "net."))
    states, next_states = torch.randint(256, (2, 6, picture.size), dtype=torch.uint8, generator=rng)
    images, next_images = states.view(6, 3, 36, 36), next_states.view(6, 3, 36, 36)
    actions, rewards = torch.rand(6, A, generator=rng) * 2 - 1, torch.randn(6, generator=rng)
    discounts = torch.tensor([0.0, *[0.9] * 5])

    torch.manual_seed(1)
    chosen, log_probs = theirs.actor.action_log_prob(images)
    actor_loss = (alpha * log_probs[:, None] - theirs.critic(images, chosen)[0]).mean()
    torch.manual_seed(2)
    with torch.no_grad():
        following, log_probs = theirs.actor.action_log_prob(next_images)
        value = theirs.critic_target(next_images, following)[0][:, 0] - alpha * log_probs
    targets = rewards + discounts * value
    critic_loss = nn.functional.mse_loss(theirs.critic(images, actions)[0][:, 0], targets)

    noises = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        noises.append(torch.normal(torch.zeros(6, A), torch.ones(6, A)))
    seen = Transitions(states, actions, rewards, discounts, next_states), torch.stack(noises, 1)
    for wanted, found, their_network, network in (
        (actor_loss, ours.soft_update.actor_loss_of(*seen)[0], theirs.actor, ours.actor),
        (critic_loss, ours.soft_update.critic_loss_of(*seen)[0], theirs.critic, ours.critics),
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)
        gradients = torch.autograd.grad(wanted, list(their_network.parameters()))
        for mine, other in zip(torch.autograd.grad(found, list(network.parameters())), gradients, strict=True):
            torch.testing.assert_close(mine.view(other.shape), other, rtol=1e-5, atol=1e-6)


# -- interventions -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("contract", ["uniform", "as_released"])
def test_fire_resets_what_the_contract_says_and_keeps_memory_statistics_and_generators(contract: str) -> None:
    agent, _ = lived()
    memory = agent.experience.memory
    before, kept = everything(agent), [memory.frames.copy(), memory.action.copy()]
    written = apply(agent, "fire", contract)
    different = changed(before, everything(agent))
    for learner in agent.learners.values():
        slots = {n: learner.optimizer.state[p] for n, p in learner.module.named_parameters() if p.requires_grad}
        zero = {name for name, own in slots.items() if not any(value.any() for value in own.values())}
        assert zero == set(written[learner.name] if contract == "uniform" else slots)
    assert all(map(torch.equal, agent.target.parameters(), agent.critics.parameters()))
    of_temperature = [key for key in different if key.startswith("temperature/")]
    assert len(of_temperature) == (0 if contract == "uniform" else 4)  # its value, two slots, its count of steps
    assert contract == "uniform" or float(agent.temperature().detach()) == pytest.approx(0.01)
    assert {key.split("/")[0] for key in different} <= {"actor", "critic", "temperature"}
    assert not any("generator" in key for key in different)
    assert all(map(np.array_equal, kept, (memory.frames, memory.action)))


@pytest.mark.slow
def test_interventions_can_act_before_the_first_step() -> None:
    agent = agent_with()
    for name in ("fire", "snp", "reset", "injection"):
        apply(agent, name)
    live(agent, world(), 20, begin=True)
    assert agent.numbers()["updates"] == agent.experience.taken > 0


@pytest.mark.slow
def test_injection_leaves_values_exactly_as_they_were_and_training_goes_on() -> None:
    agent, steps = lived()
    states, actions = torch.randn(50, D), torch.rand(50, A) * 2 - 1
    values = agent.critics(states, actions)
    assert apply(agent, "injection").keys() == {"critic"}
    for critics in (agent.critics, agent.target):  # uniform: the target is the online network
        assert torch.equal(critics(states, actions), values)
    live(agent, steps, 20)
    assert not torch.allclose(agent.critics(states, actions), values, atol=1e-3)


@pytest.mark.slow
def test_spectral_layers_are_the_hidden_ones_and_targets_take_their_vectors() -> None:
    agent, _ = lived(network="mlp", normalization="spectral")
    start = dict(agent_with(network="mlp", normalization="spectral").critics.named_buffers())
    assert {name.split(".")[2] for name in start} == {"linears"}
    for (name, vector), own in zip(agent.critics.named_buffers(), agent.target.buffers(), strict=True):
        assert torch.equal(own, vector)
        assert not torch.equal(vector, start[name])


def test_the_policy_and_its_temperature_take_a_step_at_every_third_update() -> None:
    agent, steps = lived(count=6, policy_delay=3, num_envs=1, batch_size=4, learning_starts=4)
    for _ in range(7):
        before, number = everything(agent), agent.experience.taken
        live(agent, steps, 1)
        names = changed(before, everything(agent))
        assert any(name.startswith("critic/0") for name in names)
        for name in ("actor/0/body.embed.weight", "temperature/0/log_alpha"):
            assert (name in names) == (number % 3 == 0)


def test_noise_of_exploration_is_kept_for_spans_with_probabilities_of_one_over_their_square() -> None:
    agent = agent_with(noise_repeat=3, num_envs=1)
    noise = torch.stack([agent._exploration_noise((1, A)) for _ in range(6000)])[:, 0, 0]
    new = torch.nonzero(noise[1:] != noise[:-1])[:, 0]
    spans = new.diff().bincount(minlength=4)[1:] / (len(new) - 1)
    wanted = torch.tensor([1.0, 1 / 4, 1 / 9])
    torch.testing.assert_close(spans, wanted / wanted.sum(), atol=0.03, rtol=0)
