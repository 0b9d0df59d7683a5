"""Optimizers and activations that are replaced during a run: a run resumed afterwards is the same bit for bit."""

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.agents.ppo.update import GradientStep
from supple.engine.compile import compile_step
from supple.engine.runs import open_run
from supple.interventions import MuonWithAdam, learner_for, make
from supple.metrics import trainability
from tests.agents.small import lines, train


@pytest.mark.slow
def test_conditions_fire_at_the_same_steps_after_a_checkpoint(
    same: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainability, "__defaults__", (10, 1e-2))  # updates, learning rate
    # it alternates between .70 and .73: true at 40, 120 and 200
    hook = "snp(lam=0.001,noise=0.001)@when:agent/trainability<0.72,clear=0.725,least=120"
    run = train(
        "ppo", tmp_path / "run", env="inverted_pendulum", hidden=(8, 8), adapter=8, share_value=True, cycles=1,
        steps_per_task=240, checkpoint_every=120, measure_every=240, eval_episodes=0, hook=(hook,),
        trainability_every=40,
    )  # fmt: skip
    assert [event["step"] for event in lines(run, "events") if event["event"] == "intervention"] == [40, 200]
    again = shutil.copytree(run, tmp_path / "again")
    shutil.rmtree(max((again / "checkpoints").iterdir()))
    open_run(again, print).train()
    same.assert_runs(again, run)


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def steps(compiled: bool, exchange: str) -> list[Tensor]:
    """Return the parameters after two gradient steps in one call, an exchange, and two more."""
    learner = learner_for(net := small(), torch.optim.Adam(net.parameters(), lr=1e-2, eps=1e-5))
    added, step = make("spectral", strength=0.5), GradientStep(1e9, compiled)
    added.penalty(learner)  # as PPO asks before its first step, to see which parameters it reaches
    rows = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        assert learner.optimizer
        step.begin(learner.optimizer, list(net.parameters()), 2)
        step(lambda x: ((net(x) - 1).square().sum() + added.penalty(learner), x.sum().reshape(1)), 2, rows)
        if exchange and not learner.changes:
            make(exchange, activation="prelu").apply(learner)
    return list(net.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(("exchange", "backend"), [("swap", "eager"), ("", "aot_eager")])
def test_compiled_steps_see_new_activations_and_what_a_penalty_remembers(
    exchange: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the compiler only what decides whether a graph still holds is needed here, not the code it would write."""
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, options, **how: plain(f, backend=backend, **how))
    monkeypatch.setattr("supple.agents.ppo.update._compile", cache(compile_step))  # not for later tests
    compiled, eager = (steps(which, exchange) for which in (True, False))
    for ours, theirs in zip(compiled, eager, strict=True):
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
