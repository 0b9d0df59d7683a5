import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from supple.interventions import Learner, learner_for, make, parse_hook


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2))
    return learner_for(module, torch.optim.SGD(module.parameters(), lr=0.1))


def disturb(target: Learner, amount: float = 0.5) -> None:
    with torch.no_grad():
        for parameter in target.module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=amount)


@pytest.mark.slow
@settings(max_examples=15)
@given(strength=st.floats(0, 10), amount=st.floats(0, 3))
def test_value_and_gradient_are_those_of_the_equation(strength, amount):
    target = learner()
    disturb(target, amount)
    penalty = make("l2_init", strength=strength).penalty(target)
    named = dict(target.module.named_parameters())
    distance = sum(float((p.detach().double() - target.initial[n]).square().sum()) for n, p in named.items())
    assert penalty.item() == pytest.approx(strength * distance, rel=1e-4)
    gradients = torch.autograd.grad(penalty, list(named.values()))
    for (name, parameter), gradient in zip(named.items(), gradients, strict=True):
        torch.testing.assert_close(gradient, 2 * strength * (parameter.detach() - target.initial[name]))


def test_it_is_zero_at_the_start():
    assert make("l2_init").penalty(learner()).item() == 0.0


@pytest.mark.slow
def test_as_a_hook_in_training_it_pulls_back_to_the_start():
    target = learner()
    disturb(target)
    hook = parse_hook("l2_init(strength=0.5)")
    for _ in range(200):
        target.optimizer.zero_grad()
        hook.intervention.penalty(target).backward()
        target.optimizer.step()
    # θ ← θ − 0.1·2·0.5·(θ − θ₀): the distance falls by a factor 0.9 in every step
    for name, parameter in target.module.named_parameters():
        torch.testing.assert_close(parameter.detach(), target.initial[name], rtol=0, atol=1e-6)
