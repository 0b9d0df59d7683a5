"""Agents go on from their state as from themselves; measuring, evaluations and idle calls leave no trace in it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from supple.engine.hooks.driver import HookDriver
from supple.interventions import Hook, Intervention, Learner
from supple.metrics import measure
from supple.registry.errors import RunError
from tests.agents.dqn import worlds as dqn
from tests.agents.lives import live
from tests.agents.ppo import test_agent as ppo
from tests.agents.sac import worlds as sac
from tests.agents.states import apply, changed, everything, learners_of, saved

pytestmark = pytest.mark.slow

RANDOM = {"activation": "rand_smooth_leaky"}
MLP = {"network": "mlp", **RANDOM}
# the agent, its environments by a seed, and interventions on it
CASES: dict[str, tuple[Callable[[], Any], Callable[[int], Any], tuple[str, ...]]] = {
    "ppo": (lambda: ppo.agent_with(**RANDOM), lambda seed: ppo.world("a", seed=seed), ("fire",)),
    "ppo, stack": (lambda: ppo.agent_with(seeds=(3, 0), **RANDOM), lambda seed: ppo.world("a", 4, seed), ()),
    "dqn": (lambda: dqn.agent_with(**RANDOM), lambda seed: dqn.world(seed=seed), ()),
    "dqn, injections": (lambda: dqn.agent_with(**RANDOM), lambda seed: dqn.world(seed=seed), ("injection",) * 3),
    "dqn, layer": (
        lambda: dqn.agent_with(**RANDOM), lambda seed: dqn.world(seed=seed),
        ("injection", "fire", "reset(what=layer,layer=mlp.2)"),
    ),
    "dqn, rows": (
        lambda: dqn.agent_with(dqn.IMAGES, double_q=True, normalization="spectral", optimizer="rmsprop"),
        lambda seed: dqn.world(dqn.IMAGES), (),
    ),
    "dqn, categorical": (
        lambda: dqn.agent_with(dqn.IMAGES, critic_head="categorical", scale_rewards=5.0, n_step=3),
        lambda seed: dqn.world(dqn.IMAGES), ("injection",),
    ),
    "dqn, stack": (
        lambda: dqn.agent_with(dqn.IMAGES, seeds=(0, 1)), lambda seed: dqn.world(dqn.IMAGES, 4), (),
    ),
    "sac": (lambda: sac.agent_with(**RANDOM), lambda seed: sac.world(seed=seed), ()),
    "sac, stack": (
        lambda: sac.agent_with(seeds=(3, 0), **RANDOM), lambda seed: sac.world(rows=4, seed=seed), ("injection", "snp"),
    ),
    "sac, mlp": (lambda: sac.agent_with(**MLP), lambda seed: sac.world(seed=seed), ()),
    "sac, injections": (
        lambda: sac.agent_with(**RANDOM), lambda seed: sac.world(seed=seed), ("injection", "injection", "fire", "snp"),
    ),
    "sac, mlp, injections": (
        lambda: sac.agent_with(**MLP), lambda seed: sac.world(seed=seed), ("injection", "injection", "fire", "snp"),
    ),
    **{
        f"sac, {name}": (
            lambda name=name: sac.agent_with(network="mlp", normalization=name), lambda seed: sac.world(seed=seed), (),
        )
        for name in ("layer", "spectral")
    },
    **{
        f"sac, images, {network}, {heads}": (
            lambda network=network, heads=heads: sac.agent_with(sac.IMAGES, **sac.SMALL | {"network": network} | heads),
            lambda seed: sac.world(sac.IMAGES, 1), ("injection",),
        )
        for network, heads in (("mlp", {}), ("simba", {"heads": "environment"}), ("mlp", {"heads": "one-hot"}))
    },
    **{
        f"sac, {network}": (
            lambda settings=settings: sac.agent_with(**settings), lambda seed: sac.world(seed=seed), ("injection",),
        )
        for network in ("simba_v2", "flash", "crossq")
        for settings in [{"network": network, "weight_decay": 0.0, "policy_delay": 2, "noise_repeat": 4}]
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_agent_continues_from_its_state_bit_for_bit(case: str) -> None:
    make, world, changes = CASES[case]
    agent, steps = make(), world(0)
    torch.manual_seed(3)
    live(agent, steps, 16, begin=True)
    for change in changes:
        apply(agent, change)
        live(agent, steps, 16 if case == "ppo" else 3)
    state, random, other = saved(agent), torch.get_rng_state(), make()
    other.load_state_dict(state)
    for learner in agent.learners.values():
        theirs = other.learners[learner.name]
        assert theirs.changes == learner.changes
        assert torch.equal(theirs.probe()[0], learner.probe()[0])  # the recent data, as networks see them
    ends = []
    for one in (agent, other):
        torch.set_rng_state(random)
        live(one, steps := world(9), 16, begin=True)
        for text in ("redo(tau=0.5)", "fire", "reset(what=head,toward=fresh)", "snp(noise=0.01)"):
            apply(one, text)
        live(one, steps, 16)
        ends.append((everything(one), one.numbers()))
    assert changed(ends[0][0], ends[1][0]) == []
    assert ends[0][1] == ends[1][1]


@pytest.mark.parametrize("case", [
    "ppo", "dqn", "dqn, rows", "dqn, categorical", "sac", "sac, mlp", "sac, layer", "sac, spectral", "sac, simba_v2",
    "sac, flash", "sac, crossq",
])  # fmt: skip
def test_measuring_and_evaluating_leave_no_trace(case: str) -> None:
    agent, steps = CASES[case][0](), CASES[case][1](0)
    live(agent, steps, 16, begin=True)
    before, observations = everything(agent), next(steps).obs
    for learner in agent.learners.values():
        assert all(np.isfinite(value) for value in measure(learner, per_layer=True).values())
    with agent.greedy("a") as policy:
        policy(observations)
    assert all(learner.module.training for learner in agent.learners.values())
    assert changed(before, everything(agent)) == []
    live(agent, steps, 16 if case == "ppo" else 1)
    assert changed(before, everything(agent)) != []


REPLAY = pytest.mark.parametrize("module", [dqn, sac], ids=["dqn", "sac"])


@REPLAY
def test_a_loss_that_is_not_finite_ends_the_run(module: Any) -> None:
    agent, steps = module.agent_with(), module.world()
    live(agent, steps, 10, begin=True)
    agent.numbers()
    with torch.no_grad():
        next(list(agent.learners.values())[-1].module.parameters()).fill_(float("nan"))
    live(agent, steps, 1)
    with pytest.raises(RunError, match="the loss is not finite"):
        agent.numbers()


@REPLAY
def test_numbers_are_means_since_the_last_call(module: Any) -> None:
    agent, steps = module.agent_with(replay_ratio=2.0, learning_starts=10), module.world()
    live(agent, steps, 10, begin=True)
    assert agent.numbers()["updates"] == 20
    assert {"updates", "loss/td", "loss/actor"}.isdisjoint(agent.numbers())  # nothing was learned in between
    live(agent, steps, 2)
    found = agent.numbers()
    assert found["updates"] == 8
    assert module is dqn or found["temperature"] == pytest.approx(float(agent.temperature().detach()), rel=0.02)


@REPLAY
@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("ratio", [0.3, 0.5, 1.0, 3.0])
def test_replay_ratio_is_gradient_steps_per_decision(module: Any, ratio: float, num_envs: int) -> None:
    agent = module.agent_with(num_envs=num_envs, replay_ratio=ratio, learning_starts=6)
    steps = module.world(rows=num_envs)
    for decided in range(num_envs, 28, num_envs):
        live(agent, steps, 1, begin=decided == num_envs)
        assert agent.experience.taken == int(round(ratio * max(0, decided - 6), 6))
    for learner in learners_of(agent).values():
        assert learner.optimizer is not None
        assert {int(slots["step"]) for slots in learner.optimizer.state.values()} == {agent.experience.taken}


class Counter(Intervention):
    """Pulls parameters towards 0, and counts its calls."""

    name = "counter"
    calls = penalties = 0

    def penalty(self, learner: Learner) -> torch.Tensor:
        self.penalties += 1
        return 1e3 * torch.stack([p.square().sum() for p in learner.module.parameters()]).sum()

    def after_update(self, learner: Learner) -> None:
        self.calls += 1


@REPLAY
def test_hooks_that_follow_updates_or_add_to_losses_take_part_in_every_gradient_step(module: Any) -> None:
    counter, norms = Counter(), []
    for hooks in ([Hook("counter", counter, None)], []):
        agent = module.agent_with(replay_ratio=2.0, learning_rate=1e-3)
        live(agent, module.world(), 25, HookDriver(hooks, agent.learners, lambda **_: None, 1), begin=True)
        norms.append(measure(list(agent.learners.values())[-1], ["weight_norm"])["weight_norm"])
    assert counter.calls == counter.penalties == len(agent.learners) * agent.experience.taken > 40
    assert norms[0] < 0.95 * norms[1]


def test_the_last_values_of_dqn_are_normalised_without_a_trace() -> None:
    agent = dqn.lived(normalization="spectral", double_q=True)
    before = everything(agent)
    agent.targets_of(agent.experience.require_recent())
    assert changed(before, everything(agent)) == []
