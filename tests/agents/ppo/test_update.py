import copy
import shutil
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.agents.ppo.update import GradientStep, normalize, ppo_loss, steps_per_call
from supple.engine.hooks.driver import HookDriver
from supple.envs import Picture, StepResult
from supple.interventions import parse_hook
from supple.networks import Adam
from supple.registry.errors import RunError

OBSERVATION, ACTION, N = 5, 3, 48
SB3_LOSS = PPOSettings(entropy_coefficient=0.01)
PENALTIES = ("l2_init(strength=0.01)", "ewc(strength=1,samples=4)", "chain(strength=1,share=0.5,window=4)")
needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")), reason="torch.compile needs a C++ compiler"
)
NAMES = {  # ours → Stable-Baselines3's
    "body.0": "mlp_extractor.policy_net.0",
    "body.2": "mlp_extractor.policy_net.2",
    "value_body.0": "mlp_extractor.value_net.0",
    "value_body.2": "mlp_extractor.value_net.2",
    "policy.env": "action_net",
    "value.env": "value_net",
}


IMAGE = {  # of the convolutions of Nature's DQN, whose features policy and value share
    **{f"body.0.{i}": f"features_extractor.cnn.{i}" for i in (0, 2, 4)},
    "body.1": "features_extractor.linear.0",
    "policy.env": "action_net",
    "value.env": "value_net",
}
PICTURE = Picture(3, 36, 40)


class Spaces(gym.Env):
    """An environment that only has spaces."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (ACTION,), np.float32)


class ImageSpaces(Spaces):
    observation_space = gym.spaces.Box(0, 255, (3, 36, 40), np.uint8)


def network(picture: Picture | None = None) -> MultiHead:
    draws, policy = torch.Generator().manual_seed(0), Gaussian(ACTION)
    if picture is None:
        net = MultiHead({"env": PolicySpace(OBSERVATION, policy)}, (64, 64), 0, "tanh", False, draws)
    else:
        space = PolicySpace(picture.size, policy, "uint8", picture)
        net = MultiHead({"env": space}, (512,), 0, "relu", True, draws, encoder="nature")
    with torch.no_grad():  # away from the start, where policy means are tiny and every log_std is 0
        for p in net.parameters():
            by = 0.1 if picture is None else 0.02
            p += by * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()))
    return net


def batch(n: int = N, picture: Picture | None = None) -> tuple[torch.Tensor, ...]:
    """Return a minibatch whose old log-probabilities differ from the policy's so much that some ratios are clipped."""
    g = torch.Generator().manual_seed(1)
    observations, noise = torch.randn(n, OBSERVATION, generator=g), torch.randn(n, ACTION, generator=g)
    if picture is not None:
        observations = torch.randint(256, (n, picture.size), generator=g, dtype=torch.uint8)
    net = network(picture)
    with torch.no_grad():
        actions = net.make_policy("env")(observations) + net.log_std["env"].exp() * noise
        log_probs = Gaussian(ACTION).log_prob_from_noise(actions, actions, noise, net.log_std["env"])
        log_probs += 0.2 * torch.randn(n, generator=g)
        values = net.values(observations, "env") + 0.3 * torch.randn(n, generator=g)
    advantages = 3 * torch.randn(n, generator=g)
    return observations, actions, log_probs, values, advantages, advantages + values


def sb3_update(max_grad_norm: float, picture: Picture | None = None) -> tuple[Any, dict[str, float]]:
    """Return Stable-Baselines3's PPO after one update on `batch()`, and what it logged."""
    from stable_baselines3 import PPO as Peer
    from stable_baselines3.common.logger import configure

    kind, env = ("MlpPolicy", Spaces()) if picture is None else ("CnnPolicy", ImageSpaces())
    model = Peer(kind, env, n_steps=N, batch_size=N, n_epochs=1, ent_coef=0.01, max_grad_norm=max_grad_norm)
    model.set_logger(configure(None, []))
    net, policy = network(picture), dict(model.policy.named_modules())
    for ours, theirs in (NAMES if picture is None else IMAGE).items():
        policy[theirs].load_state_dict(net.get_submodule(ours).state_dict())
    model.policy.log_std.data.copy_(net.log_std["env"].data)
    buffer = model.rollout_buffer
    names = ("observations", "actions", "log_probs", "values", "advantages", "returns")
    for name, tensor in zip(names, batch(N, picture), strict=True):
        getattr(buffer, name)[:] = tensor.numpy().reshape(getattr(buffer, name).shape)
    buffer.full = True
    model.train()
    return model.policy, model.logger.name_to_value


def pairs(net: MultiHead, policy: nn.Module) -> list[tuple[torch.Tensor, nn.Parameter]]:
    """(our parameter, Stable-Baselines3's)."""
    theirs = dict(policy.named_parameters())
    found = [(net.log_std["env"], theirs["log_std"])]
    for a, b in (IMAGE if net.share_value else NAMES).items():
        found += [(net.get_parameter(f"{a}.{part}"), theirs[f"{b}.{part}"]) for part in ("weight", "bias")]
    assert len(found) == len(theirs) == len(list(net.parameters()))
    return found


@pytest.mark.parametrize("picture", [None, PICTURE], ids=["vectors", "images"])
def test_loss_clipped_gradients_and_an_update_by_adam_equal_those_of_stable_baselines3(picture: Picture | None) -> None:
    policy, logged = sb3_update(0.1, picture)
    net, stepped = network(picture), network(picture)
    loss, statistics = ppo_loss(net, "env", batch(N, picture), SB3_LOSS)
    loss.backward()
    assert nn.utils.clip_grad_norm_(net.parameters(), 0.1) > 0.1
    theirs = ("policy_gradient_loss", "value_loss", "entropy_loss", "approx_kl", "clip_fraction")
    expected = torch.tensor([logged[f"train/{name}"] for name in theirs]) * torch.tensor([1, 1, -1, 1, 1])
    assert statistics.tolist() == pytest.approx(expected.tolist(), rel=1e-4)
    assert 0.1 < statistics[-1] < 0.9
    step = GradientStep(0.1, compiled=False)
    step.begin(Adam(stepped.parameters(), lr=3e-4, eps=1e-5), list(stepped.parameters()), 1)
    step(lambda *b: ppo_loss(stepped, "env", b, SB3_LOSS), N, *batch(N, picture))
    for (start, peer), (mine, _) in zip(pairs(net, policy), pairs(stepped, policy), strict=True):
        torch.testing.assert_close(start.grad, peer.grad, rtol=1e-4, atol=1e-6)
        assert not torch.equal(mine, start)
        torch.testing.assert_close(mine.detach(), peer.detach(), rtol=0, atol=2e-6)  # a step is 3e-4


@pytest.mark.parametrize(
    ("max_norm", "adam", "picture"),
    [(0.5, {}, None), (0.0, {"weight_decay": 0.1, "betas": (0.5, 0.9)}, None), (0.5, {"weight_decay": 0.1}, PICTURE)],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_steps_equal_clipping_by_norm_and_the_optimizers_own_steps(
    max_norm: float, adam: dict[str, Any], picture: Picture | None, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.agents.ppo.update._compile", lambda function: function)  # eager: that is quick
    ours, reference = network(picture), network(picture)
    optimizer = Adam(ours.parameters(), lr=1e-2, eps=1e-5, **adam)
    step = GradientStep(max_norm, compiled)
    step.begin(optimizer, list(ours.parameters()), 2)
    plain = torch.optim.Adam(reference.parameters(), lr=1e-2, eps=1e-5, **adam)
    rows = batch(N, picture)
    for _ in range(4):
        step(lambda *b: ppo_loss(ours, "env", b, SB3_LOSS), N // 2, *rows)  # two steps a call
        for minibatch in zip(*(tensor.split(N // 2) for tensor in rows), strict=True):
            plain.zero_grad()
            ppo_loss(reference, "env", minibatch, SB3_LOSS)[0].backward()
            if max_norm:
                nn.utils.clip_grad_norm_(reference.parameters(), max_norm)
            plain.step()
    for mine, theirs in zip(ours.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
        for slot, value in plain.state[theirs].items():
            torch.testing.assert_close(optimizer.state[mine][slot], value, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("minibatches", "calls"), [(1, 1), (4, 4), (6, 3), (7, 1), (10, 5), (25, 5), (32, 4)])
def test_no_minibatch_of_an_epoch_is_left_over_by_compiled_calls(minibatches: int, calls: int) -> None:
    assert steps_per_call(minibatches, 5) == calls


def test_clipped_values_take_the_larger_error() -> None:
    net, rows = network(), batch()
    clip = 0.1
    settings = PPOSettings(clip_range=clip, clip_value=True)
    value_loss = ppo_loss(net, "env", rows, settings)[1][1]
    values, old, returns = net.values(rows[0], "env").detach().numpy(), rows[3].numpy(), rows[5].numpy()
    clipped = np.clip(values, old - clip, old + clip)
    expected = np.maximum((values - returns) ** 2, (clipped - returns) ** 2).mean()
    assert float(value_loss) == pytest.approx(expected, rel=1e-5)
    assert expected > ((values - returns) ** 2).mean()


@pytest.mark.parametrize("settings", [PPOSettings(normalize_advantage=False), PPOSettings(advantage_scope="batch")])
def test_without_normalisation_of_minibatches_the_advantages_enter_as_they_are(settings: PPOSettings) -> None:
    net, rows = network(), batch()
    ratio = torch.exp(
        torch.distributions.Normal(net.make_policy("env")(rows[0]), net.log_std["env"].exp()).log_prob(rows[1]).sum(-1)
        - rows[2]
    )
    expected = -torch.minimum(ratio * rows[4], ratio.clamp(0.8, 1.2) * rows[4]).mean()
    torch.testing.assert_close(ppo_loss(net, "env", rows, settings)[1][0], expected.detach())
    assert normalize(torch.tensor([3.0])) == 3  # a single one is not normalised


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("penalties", [(), PENALTIES], ids=["none", "penalties"])
def test_compiled_training_equals_eager_training_across_an_intervention(
    penalties: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.agents.ppo.agent.UNROLL", 2)  # compiles in half the time
    monkeypatch.setattr("torch.distributions.kl._KL_MEMOIZE", {})  # as in a new process
    networks = [trained(mode, penalties) for mode in ("on", "off")][::-1]
    for (name, eager), compiled in zip(networks[0].named_parameters(), networks[1].parameters(), strict=True):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


def trained(compile_mode: str, penalties: Sequence[str]) -> MultiHead:
    """Two rollouts of random data with FIRE and the end of a task between them; five gradient steps of 1e-2 an epoch,
    so that one is left over that is not compiled.

    Without penalties the activation is a random one, which must draw the same slopes compiled as not; and Adam has
    weight decay and other β, its gradients no bound.
    """
    other: dict[str, Any] = {} if penalties else {"weight_decay": 0.05, "adam_betas": (0.8, 0.9), "max_grad_norm": 0.0}
    settings = PPOSettings(
        env="unused", steps=1, num_envs=2, rollout_steps=40, epochs=2, minibatch_size=16, learning_rate=1e-2,
        hidden=(8,), adapter=6, activation="tanh" if penalties else "rand_smooth_leaky", normalize_rewards=False,
        compile=compile_mode, **other,
    )  # fmt: skip
    agent = PPO(settings, {"a": PolicySpace(4, Gaussian(2)), "b": PolicySpace(3, Gaussian(1))})
    start = copy.deepcopy(agent.network)
    hooks = [parse_hook(text) for text in (*penalties, "fire@10")]
    events: list[dict[str, Any]] = []
    driver = HookDriver(hooks, agent.learners, lambda **event: events.append(event), 100)
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    agent.begin_task("a")
    agent.begin_episodes(rng.normal(size=(2, 4)))
    for moment in (10, 20):
        for _ in range(settings.rollout_steps):
            agent.act()
            new = rng.normal(size=(2, 4))
            no = np.zeros(2, bool)
            agent.remember(StepResult(new, rng.normal(size=2), no, no, new, []))
        assert agent.update(driver, last=False)
        driver.after_steps(moment - 1, moment)
        driver.finish_task()
    assert [event["step"] for event in events] == [10]
    after = dict(agent.network.named_parameters())
    assert max(float((after[name] - p).detach().abs().max()) for name, p in start.named_parameters()) > 0.05
    return agent.network


@needs_compiler
def test_a_penalty_that_cannot_be_compiled_is_named_in_one_line() -> None:
    weight, draws = nn.Parameter(torch.ones(2)), torch.Generator()
    step = GradientStep(0.0, compiled=True)
    step.begin(Adam([weight]), [weight], 1)
    with pytest.raises(RunError, match=r"^torch.compile cannot trace the loss \(.*\): use --compile off, or set .*$"):
        step(lambda rows: ((weight * torch.rand(2, generator=draws)).sum(), rows), 1, torch.ones(1))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("members", [0, 2])
def test_compiled_steps_on_images_equal_eager_ones(members: int) -> None:
    picture, networks = Picture(2, 6, 6, last=True), []
    space = PolicySpace(picture.size, Gaussian(1), "uint8", picture)
    stack = (members,) if members else ()
    g = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (*stack, 16, picture.size), generator=g, dtype=torch.uint8)
    rows = (pixels, torch.randn(*stack, 16, 1, generator=g), *torch.randn(4, *stack, 16, generator=g))
    for compiled in (False, True):
        torch.manual_seed(0)  # from which a stack draws
        draws = None if members else torch.Generator().manual_seed(0)
        net = MultiHead({"a": space}, (8,), 0, "relu", True, draws, encoder="minatar(channels=[4])", members=members)
        step = GradientStep(0.5, compiled, bool(members))
        step.begin(
            Adam(net.parameters(), 1e-2, eps=1e-5, weight_decay=0.01, networks=int(members > 0)),
            list(net.parameters()),
            1,
        )
        for _ in range(3):
            step(lambda *b, net=net: ppo_loss(net, "a", b, SB3_LOSS), 16, *rows)
        networks.append(net)
    for (name, eager), other in zip(networks[0].named_parameters(), networks[1].parameters(), strict=True):
        torch.testing.assert_close(other, eager, rtol=1e-4, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")
