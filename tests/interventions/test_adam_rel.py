import pytest
import torch
from torch import nn

from supple.agents.ppo.update import GradientStep
from supple.interventions import Learner, learner_for, make, snapshot
from supple.networks import Adam

B1, B2, EPSILON, RATE = 0.9, 0.999, 1e-8, 0.01


def learner(optimizer: type[torch.optim.Optimizer] = torch.optim.Adam) -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    return learner_for(module, optimizer(module.parameters(), lr=RATE))  # type: ignore[call-arg]


@pytest.mark.slow
def test_1000_updates_equal_the_formulas_with_time_reset_every_100() -> None:
    target, rel = learner(), make("adam_rel")
    rel.attach(target)
    source = torch.Generator().manual_seed(1)
    named = dict(target.module.named_parameters())
    theta = snapshot(target.module)
    m, v = ({name: torch.zeros_like(p) for name, p in theta.items()} for _ in range(2))
    t = 0
    for update in range(1000):
        if update % 100 == 0:
            assert rel.apply(target) == []
            t = 0
        t += 1
        x = torch.randn(8, 4, generator=source, dtype=torch.float64)
        target.optimizer.zero_grad()
        (target.module(x) * (1 + update // 100)).square().mean().backward()
        target.optimizer.step()
        for name, parameter in named.items():
            m[name] = B1 * m[name] + (1 - B1) * parameter.grad
            v[name] = B2 * v[name] + (1 - B2) * parameter.grad**2
            change = (m[name] / (1 - B1**t)) / ((v[name] / (1 - B2**t)).sqrt() + EPSILON)
            theta[name] = theta[name] - RATE * change
            torch.testing.assert_close(parameter.detach(), theta[name], rtol=0, atol=1e-11)


def test_integer_counters_are_reset_too() -> None:
    target = learner()
    target.optimizer.state[target.module[0].weight] = {"step": 7, "exp_avg": torch.ones(3)}
    make("adam_rel").apply(target)
    assert target.optimizer.state[target.module[0].weight]["step"] == 0
    assert torch.equal(target.optimizer.state[target.module[0].weight]["exp_avg"], torch.ones(3))


def test_the_fused_step_of_ppo_uses_the_reset_counters() -> None:
    target = learner(Adam)
    step = GradientStep(0.0, compiled=False)
    step.begin(target.optimizer, list(target.module.parameters()), 1)
    step(lambda x: (target.module(x).square().mean(), x.sum()), 4, torch.randn(8, 4, dtype=torch.float64))
    assert step.steps.tolist() == [2.0] * 4
    make("adam_rel").apply(target)
    assert step.steps.tolist() == [0.0] * 4
    assert step.average.any()


def test_the_contract_says_that_moments_are_kept() -> None:
    assert make("adam_rel").contract(learner())["optimizer state"] == "step counters zeroed in place, moments kept"


def test_an_optimizer_that_counts_no_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="adam_rel: 'model' has SGD"):
        make("adam_rel").attach(learner(torch.optim.SGD))
