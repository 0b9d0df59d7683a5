"""Optimizers and activations that are replaced during a run: a run resumed afterwards is the same bit for bit."""

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.ppo.update import GradientStep
from supple.agents.sac import SACSettings
from supple.engine.compile import compile_step
from supple.engine.runs import open_run, prepare
from supple.engine.settings import RunSettings
from supple.engine.spec import RunSpec
from supple.interventions import MuonWithAdam, learner_for, make
from supple.metrics import trainability

HOOKS = ("muon@0.4", "swap(activation=prelu)@0.4", "redo(tau=0.5)@0.5", "swap(activation=rand_smooth_leaky)@0.8")
COMMON: dict[str, Any] = {
    "hook": HOOKS, "num_envs": 2, "steps": 240, "checkpoint_every": 120, "measure_every": 240, "eval_episodes": 0,
}  # fmt: skip


def settings(name: str) -> RunSettings:
    if name == "ppo":
        return PPOSettings(
            env="inverted_pendulum", rollout_steps=20, minibatch_size=10, epochs=2, hidden=(8, 8), adapter=8,
            share_value=True, compile="off", **COMMON,
        )  # fmt: skip
    if name == "dqn":
        pytest.importorskip("ale_py", reason="ale-py is an extra")
        return DQNSettings(
            env="asterix", learning_starts=20, replay_size=400, batch_size=4, hidden=(8,), replay_ratio=0.25,
            encoder="nature(channels=[4,4,4])", target_period=40, device="cpu", **COMMON,
        )  # fmt: skip
    return SACSettings(
        env="Pendulum-v1", learning_starts=20, replay_size=400, batch_size=8, actor_width=8, critic_width=8,
        critic_blocks=1, replay_ratio=0.5, device="cpu", compile="off", **COMMON,
    )  # fmt: skip


def finish(run: Path) -> None:
    open_run(run, print).train(lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_a_run_resumed_after_an_exchange_is_the_uninterrupted_one(name: str, same: Any, tmp_path: Path) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    prepare(RunSpec(name, settings(name)), run).close()
    finish(run)
    shutil.copytree(run, again)
    first, last = sorted((again / "checkpoints").iterdir(), key=lambda folder: int(folder.name))
    assert int(first.name) < int(last.name)
    shutil.rmtree(last)
    finish(again)
    same.assert_runs(again, run)
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    done = [event["hook"] for event in events if event["event"] == "intervention"]
    assert set(done) == set(HOOKS)
    tree = json.loads((first / "state.json").read_text().splitlines()[1])["tree"]["work"]
    of_learners = tree["learners"].values() if "learners" in tree else [tree["learner"]]
    assert ["muon", "swap(activation=prelu)"] in [learner["changes"] for learner in of_learners]


REMEMBER = {  # what any of them forgot would change the run
    "all": ("trac", "ewc(samples=4)", "snr(window=2,eta=0.4)", "spectral", "cpr(period=7)", "chain"),
    "some": ("upgd", "hare_tortoise@0.8", "chain(share=0.1,window=9)", "l2_er(period=7,rate=0.1)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("hooks", REMEMBER.values(), ids=REMEMBER)
def test_what_a_hook_stores_of_parameters_is_restored_from_a_checkpoint(
    hooks: tuple[str, ...], same: Any, tmp_path: Path
) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    prepare(RunSpec("ppo", replace(settings("ppo"), hook=hooks, cycles=2, steps=None, steps_per_task=120)), run).close()
    finish(run)
    shutil.copytree(run, again)
    shutil.rmtree(max((again / "checkpoints").iterdir(), key=lambda folder: int(folder.name)))
    finish(again)
    same.assert_runs(again, run)


@pytest.mark.slow
def test_conditions_fire_at_the_same_steps_after_a_checkpoint(
    same: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainability, "__defaults__", (10, 1e-2))  # updates, learning rate
    run, again = tmp_path / "run", tmp_path / "again"
    # it alternates between .70 and .73: true at 40, 120 and 200
    hook = "snp(lam=0.001,noise=0.001)@when:agent/trainability<0.72,clear=0.725,least=120"
    own: dict[str, Any] = {"hook": (hook,), "trainability_every": 40}
    prepare(RunSpec("ppo", replace(settings("ppo"), **own)), run).close()
    finish(run)
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "intervention"] == [40, 200]
    shutil.copytree(run, again)
    shutil.rmtree(max((again / "checkpoints").iterdir(), key=lambda folder: int(folder.name)))
    finish(again)
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
