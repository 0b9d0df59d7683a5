import pytest
import torch

from supple.agents.ppo.update import GradientStep
from supple.interventions import make, snapshot
from supple.networks import Adam
from tests.interventions.common import X, learner, update


@pytest.mark.slow
def test_300_updates_equal_the_formulas_with_time_reset_every_100():
    target, rel = learner(optimizer=torch.optim.Adam), make("adam_rel")
    rel.attach(target)
    theta = snapshot(target.module)
    m, v = ({name: torch.zeros_like(p) for name, p in theta.items()} for _ in range(2))
    for number in range(300):
        if number % 100 == 0:
            assert rel.apply(target) == []
        t = 1 + number % 100
        update(target)
        for name, parameter in target.module.named_parameters():
            m[name] = 0.9 * m[name] + 0.1 * parameter.grad
            v[name] = 0.999 * v[name] + 0.001 * parameter.grad**2
            theta[name] -= 0.05 * (m[name] / (1 - 0.9**t)) / ((v[name] / (1 - 0.999**t)).sqrt() + 1e-8)
            torch.testing.assert_close(parameter.detach(), theta[name], rtol=0, atol=1e-11)


def test_integer_counters_are_reset_too():
    target = learner(optimizer=torch.optim.Adam)
    state = target.optimizer.state[target.module[0].weight] = {"step": 7, "exp_avg": torch.ones(3)}
    make("adam_rel").apply(target)
    assert state["step"] == 0
    assert state["exp_avg"].tolist() == [1, 1, 1]


def test_the_fused_step_of_ppo_uses_the_reset_counters():
    target, step = learner(optimizer=Adam), GradientStep(0.0, compiled=False)
    step.begin(target.optimizer, list(target.module.parameters()), 1)
    step(lambda x: (target.module(x).square().mean(), x.sum()), 4, X)
    assert step.steps.tolist() == [8.0] * 4
    make("adam_rel").apply(target)
    assert step.steps.tolist() == [0.0] * 4
    assert step.average.any()
