"""What a checkpoint says of a learner."""

import copy

import torch
from torch import nn

from supple.experiments.learner_state import learner_state, load_learner_state
from supple.interventions import Learner, learner_for, make


def world() -> Learner:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(8, 32, 8), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
    net[0].weight.data = net[0].weight.contiguous(memory_format=torch.channels_last)  # as DQN's
    return learner_for(net)


def test_initial_values_lie_in_memory_as_before() -> None:
    """Norms of them are sums in the order of the memory: in another order, nap's last bits were others."""
    ours, theirs = world(), world()
    state = learner_state(ours)
    state["initial"] = {name: value.contiguous() for name, value in ours.initial.items()}  # as a file has them
    load_learner_state(theirs, copy.deepcopy(state))
    assert {name: value.stride() for name, value in theirs.initial.items()} == {
        name: value.stride() for name, value in ours.initial.items()
    }
    for learner in (ours, theirs):
        make("nap").apply(learner)
    for name, value in ours.module.named_parameters():
        assert torch.equal(theirs.module.get_parameter(name), value)
