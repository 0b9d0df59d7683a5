import copy

import pytest
import torch
from torch import nn

from supple.interventions import make, snapshot
from tests.interventions.common import exact, learner, slots, update


@pytest.mark.slow
def test_the_tortoise_is_the_moving_average_of_parameters_and_statistics_and_the_hare_becomes_it():
    target = learner(
        lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4)).double(),
        torch.optim.Adam,
    )
    target.followers = (copy.deepcopy(target.module),)
    both, average = make("hare_tortoise", momentum=0.7), {}
    assert both.apply(target) == []  # before the first update they are the same
    for _ in range(6):
        update(target, both)
        for name, value in snapshot(target.module).items():
            known = name in average and value.is_floating_point()
            average[name] = 0.7 * average[name] + 0.3 * value if known else value
    assert not torch.allclose(target.module[0].weight, average["0.weight"])
    assert both.apply(target) == [name for name, _ in target.module.named_parameters()]
    torch.testing.assert_close(snapshot(target.module), average)
    exact(snapshot(target.followers[0]), snapshot(target.module))
    assert not any(value.any() for state in slots(target).values() for value in state.values())


def test_the_tortoise_follows_a_rewritten_hare_only_slowly():
    target, both = learner(), make("hare_tortoise", momentum=0.9)
    both.after_update(target)
    before = target.module[0].weight.detach().clone()
    for layer in (target.module[0], target.module[2]):
        nn.init.zeros_(layer.weight)
    target.module[2].requires_grad_(False)  # frozen only now: it has an average, and is kept
    both.apply(target)
    assert torch.equal(target.module[0].weight, before)
    assert not target.module[2].weight.any()
