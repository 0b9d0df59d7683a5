"""The state of a learner in a checkpoint."""

import copy
import re
from functools import reduce

import pytest
import torch
from torch import nn

from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.interventions import Learner, learner_for, make


def world() -> Learner:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(8, 32, 8), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
    net[0].weight.data = net[0].weight.contiguous(memory_format=torch.channels_last)  # as DQN's
    return learner_for(net)


def test_restored_initial_values_have_the_memory_layout_of_before() -> None:
    """Norms are summed in the order in memory: in another order, the last bits of nap would differ."""
    ours, theirs = world(), world()
    state = learner_state(ours)
    state["initial"] = {name: value.contiguous() for name, value in ours.initial.items()}  # as a file has them
    load_learner_state(theirs, copy.deepcopy(state))
    assert all(theirs.initial[name].stride() == value.stride() for name, value in ours.initial.items())
    for learner in (ours, theirs):
        make("nap").apply(learner)
    assert all(map(torch.equal, ours.module.parameters(), theirs.module.parameters()))


def test_restored_initial_values_lie_where_the_network_does() -> None:
    """PyTorch's device without values stands for a GPU; of norms and spectral layers, buffers belong to step 0 too."""
    learners = [learner_for(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))) for _ in range(2)]
    state = learner_state(learners[0])
    learners[1].module.to("meta")
    learners[1].optimizer = None
    load_learner_state(learners[1], {**state, "module": learners[1].module.state_dict()})
    assert "1.running_mean" in learners[1].initial
    assert {value.device.type for value in learners[1].initial.values()} == {"meta"}


def test_the_state_of_an_optimizer_other_than_adam_can_be_read_back() -> None:
    """RMSprop counts its steps as Adam does, and has none of its averages of gradients."""
    ours, theirs = trained(torch.optim.RMSprop), trained(torch.optim.RMSprop)
    load_learner_state(theirs, copy.deepcopy(learner_state(ours)))
    for one, other in zip(ours.module.parameters(), theirs.module.parameters(), strict=True):
        slots, restored = (learner.optimizer.state[p] for learner, p in ((ours, one), (theirs, other)))
        assert slots.keys() == restored.keys() == {"step", "square_avg"}
        assert all(map(torch.equal, slots.values(), restored.values()))


@pytest.mark.parametrize(
    ("path", "wrong", "says"),
    [
        ("optimizer/0/exp_avg", torch.zeros(3), "exp_avg should be float32 of shape (32, 8, 8, 8), but is float32 of"),
        ("initial/3.bias", torch.zeros(()), "initial of 'model'.3.bias should be float32 of shape (2,)"),
        ("marked/3.bias", torch.zeros(2, dtype=torch.int64), "marked of 'model'.3.bias should be float32"),
    ],
)
def test_a_tensor_of_another_shape_or_type_is_refused_by_name(path: str, wrong: torch.Tensor, says: str) -> None:
    """PyTorch's fused Adam trusts the shapes of its slots: with others it reads beyond their ends."""
    ours = trained()
    state = copy.deepcopy(learner_state(ours))
    *way, last = path.split("/")
    place = reduce(lambda tree, name: tree[name], way, state)
    place[last] = wrong
    with pytest.raises(ValueError, match=re.escape(says)):
        load_learner_state(trained(), state)


def trained(kind: type[torch.optim.Optimizer] = torch.optim.Adam) -> Learner:
    learner = world()
    learner.optimizer = kind(learner.module.parameters())
    learner.module(torch.ones(1, 8, 8, 8)).sum().backward()
    learner.optimizer.step()
    learner.mark()
    return learner
