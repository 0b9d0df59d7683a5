"""Optimizers and activations that are replaced during a run: a run resumed afterwards is the same bit for bit."""

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.update import GradientStep
from supple.engine.compile import compile_step
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.interventions import MuonWithAdam, learner_for, make
from supple.metrics import trainability
from tests.agents.small import lines


@pytest.mark.slow
def test_conditions_fire_at_the_same_steps_after_a_checkpoint(
    same: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainability, "__defaults__", (10, 1e-2))  # updates, learning rate
    run, again = tmp_path / "run", tmp_path / "again"
    # it alternates between .70 and .73: true at 40, 120 and 200
    hook = "snp(lam=0.001,noise=0.001)@when:agent/trainability<0.72,clear=0.725,least=120"
    settings = PPOSettings(
        env="inverted_pendulum", rollout_steps=20, minibatch_size=10, epochs=2, hidden=(8, 8), adapter=8,
        share_value=True, compile="off", num_envs=2, steps=240, checkpoint_every=120, measure_every=240,
        eval_episodes=0, hook=(hook,), trainability_every=40,
    )  # fmt: skip
    prepare(RunSpec("ppo", settings), run, print).train()
    assert [event["step"] for event in lines(run, "events") if event["event"] == "intervention"] == [40, 200]
    shutil.copytree(run, again)
    shutil.rmtree(max((again / "checkpoints").iterdir(), key=lambda folder: int(folder.name)))
    open_run(again, print).train()
    same.assert_runs(again, run)


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def steps(compiled: bool, exchange: str, **params: Any) -> list[Tensor]:
    """Parameters after two gradient steps, the exchange, and two more."""
    learner = learner_for(net := small(), torch.optim.Adam(net.parameters(), lr=1e-2, eps=1e-5))
    step = GradientStep(1e9, compiled)
    rows = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        assert learner.optimizer
        step.begin(learner.optimizer, list(net.parameters()), 2)
        step(lambda x: ((net(x) - 1).square().sum(), x.sum().reshape(1)), 2, rows)
        if len(learner.changes) == 0:
            make(exchange, **params).apply(learner)
    return list(net.parameters())


@pytest.mark.slow
def test_compiled_steps_see_new_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the compiler only what decides whether a graph still holds is needed here, not the code it would write."""
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, options, **how: plain(f, backend="eager", **how))
    monkeypatch.setattr("supple.agents.ppo.update._compile", cache(compile_step))  # not for later tests
    compiled, eager = (steps(which, "swap", activation="prelu") for which in (True, False))
    for ours, theirs in zip(compiled, eager, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_compiled_steps_have_a_penalty_that_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps in one call, twice: the second call must see what the first left behind."""
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, options, **how: plain(f, backend="aot_eager", **how))
    monkeypatch.setattr("supple.agents.ppo.update._compile", cache(compile_step))
    found = []
    for compiled in (True, False):
        learner = learner_for(net := small()[:1], torch.optim.Adam(net.parameters(), lr=1e-2, eps=1e-5))
        penalty, step = make("spectral", strength=0.5), GradientStep(1e9, compiled)
        penalty.penalty(learner)  # as PPO asks before its first step, to see which parameters it reaches

        def loss(x: Tensor, net: nn.Module = net, penalty: Any = penalty, learner: Any = learner) -> Any:
            return (net(x) - 1).square().sum() + penalty.penalty(learner), x.sum().reshape(1)

        for _ in range(2):
            assert learner.optimizer
            step.begin(learner.optimizer, list(net.parameters()), 2)
            step(loss, 2, torch.randn(4, 2, generator=torch.Generator().manual_seed(0)))
        found.append(list(net.parameters()))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_ppo_takes_the_steps_of_another_optimizer() -> None:
    """Clipped gradients, and none is left for parameters that the next environment does not train."""
    net = small()
    learner = learner_for(net, torch.optim.Adam(net.parameters(), lr=1e-2))
    make("muon").apply(learner)
    twin = learner_for(other := small(), torch.optim.Adam(other.parameters(), lr=1e-2))
    make("muon").apply(twin)
    x = torch.ones(2, 2)
    assert isinstance(learner.optimizer, MuonWithAdam)
    step = GradientStep(0.1, compiled=False)
    step.begin(learner.optimizer, list(net.parameters()), 1)
    for _ in range(3):
        step(lambda x: ((net(x) - 1).square().sum(), x.sum().reshape(1)), 2, x)
        assert twin.optimizer
        twin.optimizer.zero_grad()
        (other(x) - 1).square().sum().backward()
        nn.utils.clip_grad_norm_(other.parameters(), 0.1)
        twin.optimizer.step()
    assert all(p.grad is None for p in net.parameters())
    for ours, theirs in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PPO", "DQN", "SAC"])
def test_stable_baselines3_trains_with_the_new_optimizer_and_activations(name: str) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    from supple.agents.sb3 import SuppleCallback

    own = {"n_steps": 16, "batch_size": 8, "n_epochs": 1} if name == "PPO" else {"learning_starts": 8, "batch_size": 8}
    env = "Pendulum-v1" if name == "SAC" else "CartPole-v1"
    model = getattr(sb3, name)("MlpPolicy", env, policy_kwargs={"net_arch": [6, 6]}, seed=0, device="cpu", **own)
    hooks = ["muon(lr=0.01)@0.3", "swap(activation=prelu)@0.6", "l2_init(strength=1e-3)"]
    callback = SuppleCallback(hooks=hooks, measure_every=0)
    model.learn(64, callback=callback)
    for learner in callback.learners.values():
        assert learner.changes == ["muon(lr=0.01)", "swap(activation=prelu)"]
        optimizer = learner.optimizer
        assert isinstance(optimizer, MuonWithAdam)
        assert any(getattr(part, "optimizer", None) is optimizer for part in model.policy.modules())
        (matrices,) = optimizer.matrices()
        assert matrices["lr"] * matrices["ratio"] == pytest.approx(0.01)  # SB3 sets the rate of every group
        assert all(optimizer.state[p]["momentum_buffer"].any() for p in matrices["params"])
        slopes = [p for n, p in learner.module.named_parameters() if p.shape == (1,) and n in learner.initial]
        assert any(float(p.detach()) != 0.25 for p in slopes)
        assert not optimizer._optimizer_step_pre_hooks  # taken back at the end
