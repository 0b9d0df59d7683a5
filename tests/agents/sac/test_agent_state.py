"""SAC's state in checkpoints, and hooks that act at each of its gradient steps."""

from typing import Any

import pytest
import torch
from torch import Tensor

from supple.agents.sac.agent import SAC
from supple.engine.hooks.driver import HookDriver
from supple.interventions import Hook, Intervention, Learner

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("network", ["simba", "mlp"])
@pytest.mark.parametrize("changes", [(), ("injection", "injection", "fire", "snp")])
def test_an_agent_continues_from_its_state_bit_for_bit(small: Any, changes: tuple[str, ...], network: str) -> None:
    agent, steps = small.trained(activation="rand_smooth_leaky", network=network)
    for name in changes:
        small.apply(agent, name)
        small.live(agent, steps, 3)
    state, random = small.saved(agent), torch.get_rng_state()
    other = small.agent_with(activation="rand_smooth_leaky", network=network)
    other.load_state_dict(state)
    assert other.learners["critic"].changes == [c for c in changes if c == "injection"]

    def go_on(one: SAC) -> tuple[dict[str, Tensor], dict[str, float]]:
        torch.set_rng_state(random)
        small.live(one, small.begun(one, seed=9), 6)
        for name in ("redo", "reset(what=head,toward=fresh)", "snp(noise=0.01)"):
            small.apply(one, name)
        small.live(one, small.world(seed=10), 3)
        return small.everything(one), one.numbers()

    first, second = go_on(agent), go_on(other)
    assert small.changed(first[0], second[0]) == []
    assert first[1] == second[1]


def test_the_temperature_its_slots_and_the_statistics_belong_to_the_state(small: Any) -> None:
    agent, _ = small.trained()
    other = small.agent_with()
    other.load_state_dict(small.saved(agent))
    assert small.changed(small.everything(agent), small.everything(other)) == []
    assert float(other.temperature().detach()) != pytest.approx(0.01, abs=1e-6)
    assert torch.equal(other.inputs.mean, agent.inputs.mean)
    assert torch.equal(other.inputs.scale, agent.inputs.scale)


def test_hooks_that_follow_updates_or_add_to_losses_take_part_in_every_gradient_step(small: Any) -> None:
    class Counter(Intervention):
        name = "counter"
        calls = penalties = 0

        def penalty(self, learner: Learner) -> Tensor:
            self.penalties += 1
            return 1e3 * torch.stack([p.square().sum() for p in learner.module.parameters()]).sum()

        def after_update(self, learner: Learner) -> None:
            self.calls += 1

    agent, counter = small.agent_with(replay_ratio=2.0), Counter()
    hooks = HookDriver([Hook("counter", counter, None)], agent.learners, lambda **_: None, 1)
    small.live(agent, small.begun(agent), 15, hooks)
    assert counter.calls == counter.penalties == 2 * agent.experience.taken == 2 * 40  # of actor and critics
