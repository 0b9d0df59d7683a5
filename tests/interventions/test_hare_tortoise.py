import copy

import pytest
import torch
from torch import nn

from supple.interventions import Learner, learner_for, make, parse_hook


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    target = copy.deepcopy(module).requires_grad_(False)
    return learner_for(module, torch.optim.Adam(module.parameters(), lr=0.1), followers=(target,))


def update(target: Learner) -> None:
    target.optimizer.zero_grad()
    target.module(torch.randn(16, 4)).square().mean().backward()
    target.optimizer.step()


@pytest.mark.slow
def test_the_tortoise_is_the_moving_average_of_parameters_and_statistics_and_the_hare_becomes_it():
    target, both = learner(), make("hare_tortoise", momentum=0.7)
    assert both.apply(target) == []  # before the first update they are the same
    average: dict[str, torch.Tensor] = {}
    for step in range(6):
        update(target)
        both.after_update(target)
        for name, value in target.module.state_dict().items():
            first = step == 0 or not value.is_floating_point()
            average[name] = value.clone() if first else 0.7 * average[name] + 0.3 * value
    assert not torch.allclose(target.module[0].weight, average["0.weight"])
    objects = [(id(p), p.data_ptr()) for p in target.module.parameters()]
    written = both.apply(target)
    assert written == [name for name, _ in target.module.named_parameters()]
    assert [(id(p), p.data_ptr()) for p in target.module.parameters()] == objects
    for name, value in target.module.state_dict().items():
        torch.testing.assert_close(value, average[name])
        assert torch.equal(target.followers[0].state_dict()[name], value)
    assert not any(slot.any() for state in target.optimizer.state.values() for slot in state.values())


def test_the_tortoise_follows_a_rewritten_hare_only_slowly():
    target, both = learner(), make("hare_tortoise", momentum=0.9)
    both.after_update(target)
    before = target.module[0].weight.detach().clone()
    with torch.no_grad():
        target.module[0].weight.zero_()
    both.apply(target)
    assert torch.equal(target.module[0].weight, before)


def test_it_needs_a_schedule():
    with pytest.raises(ValueError, match="'hare_tortoise' needs a schedule"):
        parse_hook("hare_tortoise")
    assert parse_hook("hare_tortoise@every:100").intervention.has("after_update")
