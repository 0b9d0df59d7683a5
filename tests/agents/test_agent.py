"""Losses of single samples, which all agents' learners provide, and the interventions that use them."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from supple.agents.sb3 import SuppleCallback, learners_of
from supple.engine.hooks.driver import HookDriver
from supple.interventions import Learner, parse_hook
from tests.agents.dqn import worlds as dqn_worlds
from tests.agents.ppo import test_agent as ppo_tests
from tests.agents.sac import worlds as sac_worlds
from tests.integrations.sb3 import twins

HOOKS = [
    "parseval", "ewc(samples=16)", "weight_clip(kappa=1.1)", "hare_tortoise@every:6", "upgd", "dash(batches=3)@8",
    "spectral", "wasserstein", "soft_snp(epsilon=0.01)", "adam_rel@every:4", "reset(what=optimizer)@6",
    "regrama(tau=0.5)@8", "cpr(period=3)", "l2_er(period=3)", "nap",
    "adamo",
]  # fmt: skip


def ppo() -> Any:
    return ppo_tests.agent_with(rollout_steps=8, minibatch_size=6, epochs=1)


def dqn() -> Any:
    return dqn_worlds.agent_with()


def sac() -> Any:
    return sac_worlds.agent_with(learning_starts=0)


WORLDS = {"PPO": partial(ppo_tests.world, "a"), "DQN": dqn_worlds.world, "SAC": sac_worlds.world}


def driver(agent: Any, *texts: str) -> HookDriver:
    hooks = [hook for text in texts if (hook := parse_hook(text))]
    return HookDriver(hooks, agent.learners, lambda **_: None, 100)


def live(agent: Any, hooks: HookDriver, steps: int = 10) -> None:
    stream = WORLDS[type(agent).__name__]()
    agent.begin_task("a")
    agent.begin_episodes(next(stream).obs)
    hooks.after_steps(-1, 0)
    for step in range(steps):
        agent.act()
        agent.remember(next(stream))
        agent.update(hooks, last=False)
        hooks.after_steps(step, step + 1)


AGENTS = pytest.mark.parametrize("build", [ppo, dqn, sac])
WHERE = pytest.mark.parametrize(
    ("build", "name", "shape"), [(ppo, "agent", (6,)), (dqn, "q", (8,)), (sac, "actor", (8,)), (sac, "critic", (2, 8))]
)


def states(agent: Any) -> list[Tensor]:
    generators = [*agent._generators().values(), *([agent.experience.draws] if hasattr(agent, "experience") else [])]
    return [*(g.get_state() for g in generators), torch.get_rng_state()]


@pytest.mark.slow
@WHERE
def test_batches_are_losses_of_single_samples_from_generators_of_their_own(build, name, shape):
    agent = build()
    learner: Learner = agent.learners[name]
    with pytest.raises(ValueError, match="schedule it later"):
        learner.batches(2)
    live(agent, driver(agent))
    before, own = states(agent), learner.generator.get_state()
    found = [losses.detach() for losses in learner.batches(3)]
    assert [losses.shape for losses in found] == 3 * [torch.Size(shape)]
    assert not torch.equal(found[0], found[1])
    assert all(map(torch.equal, states(agent), before))
    learner.generator.set_state(own)
    assert all(map(torch.equal, (losses.detach() for losses in learner.batches(3)), found))
    parameters = list(learner.module.parameters())
    for losses in learner.batches(1):
        gradients = torch.autograd.grad(losses.sum(), parameters, allow_unused=True)
    assert any(gradient is not None and gradient.any() for gradient in gradients)


def test_one_pass_of_ppo_is_over_the_last_rollout_and_a_memory_has_none():
    agent = ppo()
    live(agent, driver(agent), steps=8)
    learner = agent.learners["agent"]
    assert [len(losses) for losses in learner.batches(None)] == [6, 6]  # of 16 rows
    agent.settings.minibatch_size = 16
    (losses,) = learner.batches(None)
    torch.testing.assert_close(losses.mean(), learner.loss())  # the probe is the whole of so small a batch
    for build, name in ((dqn, "q"), (sac, "critic")):
        with pytest.raises(ValueError, match="a replay memory has no end"):
            build().learners[name].batches(None)


@pytest.mark.slow
@AGENTS
def test_all_interventions_together_act_on_every_agent(build):
    agent = build()
    hooks = driver(agent, *HOOKS)
    live(agent, hooks, steps=16)
    for learner in agent.learners.values():
        assert learner.changes == ["nap"]
        for layer in learner.layers:  # nap is the last to act after an update
            start = learner.initial[f"{layer.name}.weight"]
            norms = [torch.linalg.vector_norm(value) for value in (layer.weight.detach(), start)]
            torch.testing.assert_close(*norms)
    hooks.finish_task()
    live(agent, hooks, steps=8)
    (ewc,) = [hook.intervention for hook in hooks.hooks if hook.intervention.name == "ewc"]
    for learner in agent.learners.values():
        assert ewc.penalty(learner) > 0
        assert all(p.isfinite().all() for p in learner.module.parameters())


def test_a_penalty_moves_no_parameter_of_another_environment_that_it_does_not_reach():
    agent = ppo()
    agent.begin_task("a")
    before = agent._trained_parameters(driver(agent))
    assert len(agent._trained_parameters(driver(agent, "ewc"))) == len(before)  # nothing yet
    assert len(agent._trained_parameters(driver(agent, "l2_init"))) == len(list(agent.network.parameters()))
    reached = {id(p) for p in agent._trained_parameters(driver(agent, "parseval"))}
    named = dict(agent.network.named_parameters())
    assert id(named["policy.b.weight"]) in reached
    assert id(named["policy.b.bias"]) not in reached


def test_hooks_before_updates_see_gradients_that_are_gone_afterwards():
    agent = ppo()
    hooks = driver(agent, "upgd(sigma=0)")
    live(agent, hooks, steps=8)
    assert all(p.grad is None for p in agent.network.parameters())
    utility = hooks.state_dict()["upgd(sigma=0)"]["intervention"]["utility"]["agent"]
    assert "policy.a.weight" in utility
    assert "policy.b.weight" not in utility


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PPO", "DQN", "SAC"])
def test_the_same_hooks_act_on_a_model_of_stable_baselines3(kind):
    model = twins.small(twins.ALGORITHMS[kind])
    texts = [text.replace("@every:6", "@every:32").replace("@8", "@64") for text in HOOKS]
    callback = SuppleCallback(hooks=texts, measure_every=0)
    model.learn(96, callback=callback)
    for learner in callback.learners.values():
        (one, two) = (losses.detach() for losses in learner.batches(2))
        assert one.shape == two.shape
        assert not torch.equal(one, two)
    callback.new_task()
    model.learn(32, callback=callback, reset_num_timesteps=False)
    assert {event["hook"] for event in callback.events} >= {"nap@start", "dash(batches=3)@64"}
    (ewc,) = [hook.intervention for hook in callback.hooks if hook.intervention.name == "ewc"]
    assert all(ewc.penalty(learner) > 0 for learner in callback.learners.values())
    assert learners_of(model).keys() == callback.learners.keys()


@pytest.mark.slow
@AGENTS
def test_chain_adapts_to_each_loss_and_draws_other_minibatches_from_generators_of_their_own(build):
    agent, plain = build(), build()
    hooks = driver(agent, "chain(share=0.1,window=2)")
    live(agent, hooks, steps=16)
    live(plain, driver(plain), steps=16)
    assert all(map(torch.equal, states(agent), states(plain)))
    found = hooks.hooks[0].intervention.state_dict()["recent"]
    for name, learner in agent.learners.items():
        own = plain.learners[name].module.parameters()
        assert not all(map(torch.equal, learner.module.parameters(), own))
        assert found[name]["updates"] > 2
        assert (found[name]["losses"] > 0).all()
        assert (found[name]["churns"] > 0).all()
