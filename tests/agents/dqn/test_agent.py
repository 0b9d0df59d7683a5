"""DQN's networks, what it does and learns, beside its equations and Stable-Baselines3."""

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from supple.agents.dqn.agent import DQN
from supple.agents.dqn.network import Sizes, ValueNetwork
from supple.agents.offpolicy.replay import Sample
from supple.engine.compile import can_compile
from supple.engine.hooks.driver import HookDriver
from supple.envs import Picture
from supple.interventions import parse_hook
from supple.networks import unit_names
from supple.networks.value_heads import project
from tests.agents.dqn.worlds import IMAGES, PIXELS, VECTORS, agent_with, lived, world
from tests.agents.lives import live


def batch_of(agent: DQN, size: int = 32) -> Sample:
    return agent.experience.memory.sample(size, torch.Generator().manual_seed(1))


def differing(agent: DQN, by: float = 0.3) -> DQN:
    """Return an agent whose target differs from its network."""
    draws = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in agent.target.parameters():
            p.add_(by * torch.randn(p.shape, generator=draws))
    return agent


def flat(network: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


# -- networks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("initialization", ["xavier", "pytorch"])
def test_layers_of_nature_come_in_forward_order_with_the_initial_values_of_the_name(initialization: Any) -> None:
    draws, picture = torch.Generator().manual_seed(0), Picture(4, 84, 84)
    own: dict[str, Any] = {"initialization": initialization, "picture": picture}
    network = ValueNetwork(picture.size, 9, None, "relu", draws, "layer", **own)
    assert [tuple(layer.weight.shape) for layer in network.layers()] == [
        (32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136), (9, 512),
    ]  # fmt: skip
    assert [layer.role for layer in network.layers()] == ["encoder"] * 3 + ["hidden", "head"]
    assert unit_names(network)[-1] == "mlp.2"
    for layer in network.layers():
        taps, (d_out, d_in) = layer.weight[0, 0].numel(), layer.weight.shape[:2]
        bound = (6 / ((d_in + d_out) * taps) if initialization == "xavier" else 1 / (d_in * taps)) ** 0.5
        bias = layer.module.get_parameter("bias").detach()
        assert 0.9 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert bool(bias.any()) == (initialization == "pytorch")
        assert float(bias.abs().max()) <= bound


def test_the_network_for_small_images_is_that_of_minatar() -> None:
    network = agent_with(IMAGES, encoder="auto", hidden=None).network
    layers = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 3)
    )
    for theirs, ours in zip(layers.parameters(), network.parameters(), strict=True):
        theirs.data.copy_(ours)
    images = torch.randint(0, 2, (4, 10, 10, 3), dtype=torch.uint8)
    torch.testing.assert_close(network(images.flatten(1)), layers(images.movedim(-1, 1).float()))


def test_values_may_be_a_softmax_over_the_actions() -> None:
    values = agent_with(VECTORS, softmax_values=True).network(torch.randn(7, 5))
    torch.testing.assert_close(values.sum(1), torch.ones(7))


# -- acting and remembering ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_environment_draws_for_itself_whether_to_explore() -> None:
    """One draw for all environments, as in FIRE's released code, would make all of them explore or none."""
    agent, steps = agent_with(num_envs=8, exploration_start=1.0, exploration=0.01, eval_epsilon=0.0), world(rows=8)
    agent.begin_episodes(next(steps).obs)
    greedy = agent.network(torch.from_numpy(agent.current)).argmax(1).numpy()
    with agent.greedy("a") as policy:
        np.testing.assert_array_equal(policy(agent.current), greedy)
    agent.experience.decisions = 50  # ε = 0.505
    agreeing = np.array([(agent.act() == greedy).mean() for _ in range(200)])
    chance = 1 - agent.epsilon * 2 / 3
    assert agreeing.mean() == pytest.approx(chance, abs=0.05)
    assert agreeing.std() == pytest.approx(np.sqrt(chance * (1 - chance) / 8), rel=0.25)


@pytest.mark.parametrize("clip", [True, False])
def test_rewards_are_clipped_to_their_sign_unless_asked_otherwise(clip: bool) -> None:
    rewards = batch_of(lived(IMAGES, clip_rewards=clip), 100).rewards
    assert (set(rewards.tolist()) <= {-1.0, 0.0, 1.0}) == clip


# -- targets and updates -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_in_bfloat16_weights_stay_float32_and_steps_are_nearly_those_of_float32() -> None:
    moves, agents = [], [agent_with(precision=p, learning_rate=1e-4) for p in ("float32", "bfloat16")]
    for agent in agents:
        start = flat(agent.network)
        live(agent, world(), 40, begin=True)
        assert {p.dtype for p in agent.network.parameters()} == {torch.float32}
        moves.append(flat(agent.network) - start)
    assert not torch.equal(*moves)
    assert torch.cosine_similarity(*moves, dim=0) > 0.9
    sample = agents[1].experience.require_recent()
    agents[0].target.load_state_dict(agents[1].target.state_dict())
    exact, found = (agent.targets_of(sample) for agent in agents)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, rtol=0.02, atol=0.02)


@pytest.mark.slow
def test_target_network_is_copied_whole_every_period_and_stays_between() -> None:
    agent, steps, copies = agent_with(VECTORS, target_period=40), world(VECTORS), []
    agent.begin_episodes(next(steps).obs)
    for _ in range(50):
        before = flat(agent.target)
        live(agent, steps, 1)
        if not torch.equal(before, flat(agent.target)):
            assert torch.equal(flat(agent.target), flat(agent.network))
            copies.append(agent.experience.decisions)
    assert copies == [40, 80]


@pytest.mark.parametrize("double_q", [False, True])
def test_the_target_is_that_of_the_equation(double_q: bool) -> None:
    agent = differing(lived(double_q=double_q, gamma=0.9))
    batch = batch_of(agent)
    with torch.no_grad():
        online, target = agent.network(batch.frames[:, 1]), agent.target(batch.frames[:, 1])
    best = online.argmax(1)
    assert not torch.equal(best, target.argmax(1))
    value = target[range(32), best] if double_q else target.max(1).values
    wanted = batch.rewards + batch.discounts * value
    torch.testing.assert_close(agent.targets_of(batch), wanted)


@pytest.mark.parametrize("double_q", [False, True])
def test_a_distribution_is_that_of_the_best_action_and_learned_for_the_chosen_one(double_q: bool) -> None:
    """The targets and losses of C51, with the head's own functions, in the order of Bellemare et al.'s Algorithm 1."""
    own: dict[str, Any] = {"critic_head": "categorical", "value_range": (-5.0, 5.0), "atoms": 11}
    agent = differing(lived(double_q=double_q, gamma=0.9, **own))
    batch, support = batch_of(agent), torch.linspace(-5, 5, 11)
    with torch.no_grad():
        states, online, target = (
            network(batch.frames[:, row]).view(32, 3, 11)
            for network, row in ((agent.network, 0), (agent.network, 1), (agent.target, 1))
        )
    best = ((online if double_q else target).softmax(-1) * support).sum(-1).argmax(-1)
    returns = batch.rewards[:, None] + batch.discounts[:, None] * support
    wanted = project(returns, target[range(32), best].softmax(-1), -5.0, 5.0, 11)
    torch.testing.assert_close(agent.targets_of(batch), wanted)
    losses, mean = agent.losses_of(batch)
    chosen = states[range(32), batch.actions].log_softmax(-1)
    torch.testing.assert_close(losses, -(wanted * chosen).sum(-1))
    torch.testing.assert_close(mean, (chosen.exp() @ support).mean())


@pytest.mark.parametrize("head", ["categorical", "hl_gauss", "quantile"])
def test_actions_policy_and_values_are_those_of_the_expectations(head: Any) -> None:
    own = {"value_range": (-5.0, 5.0)} if head != "quantile" else {}
    agent = lived(critic_head=head, eval_epsilon=0.0, **own)
    outputs = agent.network(torch.from_numpy(agent.current))
    values = torch.stack([agent.head.values(part) for part in outputs.chunk(3, -1)], -1)
    assert agent.learner.values is not None
    assert agent.learner.policy is not None
    torch.testing.assert_close(agent.learner.values(outputs), values)
    with agent.greedy("a") as policy:
        chosen = policy(agent.current + agent.centre.offset)
    np.testing.assert_array_equal(chosen, values.argmax(-1))
    assert torch.equal(agent.learner.policy(outputs, {}), values.argmax(-1))


def test_double_q_asks_the_network_as_it_is_at_each_gradient_step() -> None:
    """Several batches come in one sample; the choice in the second is that of the network after the first step."""
    together, apart = (differing(lived(double_q=True, batch_size=16, learning_rate=0.05)) for _ in range(2))
    batch = batch_of(together)
    together._learn_from(batch)
    for half in range(2):
        apart._learn_from(Sample(*(tensor[16 * half : 16 * half + 16] for tensor in batch)))
    torch.testing.assert_close(flat(together.network), flat(apart.network))


ADAM = {"betas": (0.99, 0.99), "eps": 1e-5, "weight_decay": 0.1}


@pytest.mark.slow
@pytest.mark.parametrize("largest", [0.1, 1e9])
@pytest.mark.parametrize("space", [VECTORS, PIXELS], ids=["vectors", "images"])
def test_a_gradient_step_is_that_of_stable_baselines3(
    space: Sizes, largest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stable_baselines3 import DQN as Peer
    from stable_baselines3.common.type_aliases import ReplayBufferSamples

    images, gym_env = space is PIXELS, gym.Env()
    shape, hidden = ((4, 36, 36), ()) if images else ((5,), (16, 8))
    agent = lived(
        space, max_grad_norm=0.0 if largest > 1 else largest, adam_betas=ADAM["betas"], adam_epsilon=ADAM["eps"],
        weight_decay=ADAM["weight_decay"], encoder="nature" if images else "auto",
        hidden=hidden or (512,), clip_rewards=images,
    )  # fmt: skip
    differing(agent, 0.01 if images else 0.3)
    gym_env.observation_space = spaces.Box(0, 255, shape, np.uint8 if images else np.float32)
    gym_env.action_space = spaces.Discrete(3)
    peer = Peer(
        "CnnPolicy" if images else "MlpPolicy", gym_env, learning_rate=1e-3, max_grad_norm=largest, device="cpu",
        buffer_size=10, policy_kwargs={"optimizer_kwargs": ADAM, "net_arch": list(hidden)}, gamma=0.99,
    )  # fmt: skip
    with torch.no_grad():
        for theirs, ours in ((peer.policy.q_net, agent.network), (peer.policy.q_net_target, agent.target)):
            for p, q in zip(theirs.parameters(), ours.parameters(), strict=True):
                p.copy_(q)
    agent.optimizer.state.clear()
    batch = batch_of(agent, 8)
    states, following = agent.space.split(batch.frames)
    samples = ReplayBufferSamples(
        states, batch.actions[:, None], following, 1.0 * (batch.discounts == 0)[:, None], batch.rewards[:, None], None
    )
    monkeypatch.setattr(peer.replay_buffer, "sample", lambda *a, **k: samples)
    monkeypatch.setattr(type(peer), "logger", SimpleNamespace(record=lambda *a, **k: None))
    peer.train(1, 8)
    agent._learn_from(batch)
    torch.testing.assert_close(flat(peer.policy.q_net), flat(agent.network), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "expected"), [("huber", [0.5 * 0.25, 2.0 - 0.5]), ("mse", [0.25, 4.0])])
def test_the_loss_is_hubers_or_the_square(loss: str, expected: list[float]) -> None:
    agent = lived(loss=loss)
    batch = batch_of(agent, 2)
    values = agent.network(batch.frames[:, 0]).gather(1, batch.actions[:, None]).squeeze(1)
    found = agent.losses_of(batch, values + torch.tensor([0.5, -2.0]))[0]
    torch.testing.assert_close(found, torch.tensor(expected))


@pytest.mark.slow
@pytest.mark.skipif(not can_compile(), reason="torch.compile does not work here")
@pytest.mark.parametrize("own", [{}, {"critic_head": "categorical", "value_range": (-5.0, 5.0)}], ids=["mse", "c51"])
def test_compiled_updates_are_those_of_eager_mode_with_penalties_and_double_q(own: dict[str, Any]) -> None:
    agents = [agent_with(IMAGES, compile=how, double_q=True, max_grad_norm=0.1, **own) for how in ("off", "on")]
    for agent in agents:
        hook = parse_hook("l2_init(strength=0.01)")
        live(agent, world(IMAGES), 12, HookDriver([hook], agent.learners, lambda **_: None, 40), begin=True)
    assert agents[1].compiles
    torch.testing.assert_close(*(flat(agent.network) for agent in agents), rtol=1e-4, atol=1e-5)
