import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.interventions import parse_hook, snapshot
from tests.interventions.common import disturb, learner, normed, update


@pytest.mark.slow
@settings(max_examples=15)
@given(strength=st.floats(0, 10), amount=st.floats(0, 3))
def test_value_and_gradient_are_those_of_the_equation_in_training_too(strength, amount):
    target = disturb(learner(normed), amount)
    penalty = parse_hook(f"l2_init(strength={strength})").intervention
    distances = {name: value - target.initial[name] for name, value in snapshot(target.module).items()}
    squares = sum(float(distance.square().sum()) for distance in distances.values())
    assert penalty.penalty(target).item() == pytest.approx(strength * squares)
    update(target, penalty, alone=True)
    for name, parameter in target.module.named_parameters():
        torch.testing.assert_close(parameter.grad, 2 * strength * distances[name])
