"""Networks from functions of users: their values at initialisation, and which ones are refused in one line."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from supple.engine.user_code.networks import learner_from
from supple.experiments.conformance import copy_tensors, differing_names, named_tensors
from supple.registry.errors import UsageError

CODE = """
from __future__ import annotations
import copy
from dataclasses import dataclass
import torch
from torch import nn

@dataclass
class Size:
    width: int = 8

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(4))
        self.fixed = nn.Parameter(torch.eye(4))
        self.head = nn.Linear(4, 2)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.head(self.relu((x + self.token) @ self.fixed))

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def get_action(self, x):
        return self.actor(x)

def net():
    return nn.Sequential(nn.Linear(4, Size().width), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))

def trained(made):
    made.train()
    made(3 + torch.randn(16, 4))
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(1.5).add_(0.1)
    return made

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))

def two():
    return trained(net()), X
def state():
    made = net(); start = copy.deepcopy(made.state_dict()); return trained(made), X, start
def wrapped():
    made = net(); start = nn.DataParallel(copy.deepcopy(made)).state_dict(); return trained(made), X, start
def anew():
    return trained(net()), X, net
def compiled():
    return torch.compile(trained(net()), backend="eager"), X, net
def own():
    return trained(Own()), X, Own
def own_two():
    return trained(Own()), X
def kept():
    made = trained(net()); return made, X, lambda: copy.deepcopy(made)
def partly():
    made = trained(net())
    def again():
        new = net()
        new[0].load_state_dict(made[0].state_dict())
        return new
    return made, X, again
def own_kept():
    made = trained(Own())
    return made, X, lambda: copy.deepcopy(made)
def frozen():
    made = trained(net()); made[0].requires_grad_(False)
    return made, X
def same():
    made = trained(net()); return made, X, lambda: made
def tuple_out():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.relu = nn.Linear(4, 4), nn.Linear(4, 1), nn.ReLU()
        def forward(self, x, scale):
            return self.a(self.relu(x)), {"ignored": 1}, self.b(self.relu(x)) * scale
    return Two(), (X, 2.0)
def agent():
    return Agent(), X
def other_shape():
    return net(), X, lambda: nn.Linear(4, 2)
def fails():
    return net(), X, lambda: 1 / 0
def make_body(inputs):
    return nn.Sequential(nn.Linear(inputs, 5), nn.ReLU(), nn.Linear(5, 3))
def no_module():
    return net, X
def misfit():
    return net(), torch.randn(16, 5)
def meta():
    return nn.Linear(4, 2, device="meta"), X
def lazy():
    return nn.LazyLinear(2), X
def all_frozen():
    return net().requires_grad_(False), X
def no_grad():
    made = net(); made.forward = torch.no_grad()(made.forward)
    return made, X
def missing():
    made = net(); start = dict(made.state_dict()); del start["0.weight"]; return made, X, start
def parameters_only():
    made = net(); return made, X, dict(made.named_parameters())
def not_copied():
    made = net(); return made, X, made.state_dict()
def not_a_number():
    made = net(); return made, X, {n: v * float("nan") for n, v in made.state_dict().items()}
def no_rows():
    return net(), X[:0]
def bad_rows():
    return net(), X / 0
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("own") / "mine.py"
    file.write_text(CODE)
    return file


def test_layers_are_drawn_by_their_own_reset_and_running_statistics_are_reset(code: Path) -> None:
    learner, remarks = learner_from(f"{code}:two")
    now = learner.module.state_dict()
    assert all(not torch.equal(learner.initial[name], now[name]) for name in learner.trained())
    assert not learner.initial["1.running_mean"].any()
    assert now["1.running_mean"].any()
    assert remarks == [remarks[0]]
    assert "reset_parameters" in remarks[0]


@pytest.mark.parametrize("name", ["state", "wrapped"])
def test_a_state_dict_is_that_of_step_0_with_its_statistics(code: Path, name: str) -> None:
    torch.manual_seed(3)
    learner, remarks = learner_from(f"{code}:{name}")
    now = learner.module.state_dict()
    assert all(torch.equal(1.5 * learner.initial[n] + 0.1, now[n]) for n in ("0.weight", "3.bias"))
    assert not learner.initial["1.running_mean"].any()
    assert not remarks


@pytest.mark.parametrize("name", ["anew", "compiled", "own"])
def test_a_function_that_makes_the_network_draws_it_and_changes_nothing_else(code: Path, name: str) -> None:
    def draws() -> list[object]:
        return [random.getstate(), np.random.get_state()[1].tolist()]  # noqa: NPY002

    before = draws()
    learner, remarks = learner_from(f"{code}:{name}")
    kept = copy_tensors(named_tensors(learner))
    assert draws() == before
    assert not any(torch.equal(learner.initial[n], p) for n, p in learner.trained().items())
    assert remarks == (["Equal under two seeds, so not redrawn: 'fixed'."] if name == "own" else [])
    first, second = learner.redraw(), learner.redraw()
    assert first.keys() >= learner.trained().keys() - {"fixed"}
    assert any(not torch.equal(first[n], second[n]) for n in first)
    assert differing_names(kept, named_tensors(learner)) == []


@pytest.mark.parametrize(
    ("name", "equal"),
    [
        ("kept", "'0.weight', '0.bias', '1.running_mean', '1.running_var', '3.weight'"),
        ("partly", "'0.weight', '0.bias'"),
    ],
)
def test_values_that_the_function_does_not_draw_are_named_and_drawn_by_their_layer(
    code: Path, name: str, equal: str
) -> None:
    learner, (remark,) = learner_from(f"{code}:{name}")
    assert remark.startswith(f"Equal under two seeds, so not redrawn: {equal}")
    assert ". At initialisation, '0.weight', '0.bias'" in remark
    assert not learner.initial["1.running_mean"].any()
    for n in ("0.weight", "0.bias", "3.weight"):
        assert not torch.equal(learner.initial[n], learner.module.get_parameter(n))


def test_a_function_from_the_number_of_inputs_is_looked_at_on_random_rows(code: Path) -> None:
    learner, remarks = learner_from(f"{code}:make_body")
    assert learner.probe()[0].shape == (256, 8)
    assert not remarks
    assert not torch.equal(learner.redraw()["0.weight"], learner.redraw()["0.weight"])


def test_frozen_parameters_keep_their_values_at_initialisation(code: Path) -> None:
    learner, _ = learner_from(f"{code}:frozen")
    assert torch.equal(learner.initial["0.weight"], learner.module.state_dict()["0.weight"])
    assert not torch.equal(learner.initial["3.weight"], learner.module.state_dict()["3.weight"])


def test_all_outputs_enter_the_loss_and_the_forward_method_can_be_chosen(code: Path) -> None:
    learner, _ = learner_from(f"{code}:tuple_out")
    gradients = torch.autograd.grad(learner.loss(), list(learner.trained().values()))
    assert all(gradient.any() for gradient in gradients)
    learner, _ = learner_from(f"{code}:agent", forward="get_action")
    assert learner.outputs({}, learner.probe()).shape == (16, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_two", "'fixed', 'token' cannot be redrawn, because no layer draws it"),
        ("own_kept", "does not draw 'token', 'fixed': it returns the values of the trained network"),
        ("same", "returned the trained network itself"),
        ("agent", r"Agent has no forward: name a method with --forward \(get_action\)"),
        ("no_module", r"must return \(module, inputs\)"),
        ("meta", "'weight' has no values"),
        ("lazy", "has no values .a lazy layer"),
        ("all_frozen", "no parameter that is trained"),
        ("no_grad", "without a gradient: leave out torch.no_grad"),
        ("missing", "the state dict at initialisation does not fit Sequential: it lacks '0.weight'"),
        ("parameters_only", "it lacks '1.running_mean'"),
        (
            "not_copied",
            "'0.weight' in the state dict at initialisation is that of the trained network itself: keep a copy",
        ),
        ("not_a_number", "'0.weight' in the state dict at initialisation has NaN or infinity"),
        ("nothing", "mine.py does not define nothing"),
        ("bad_rows", "its inputs are empty, or contain NaN or infinity"),
    ],
)
def test_networks_that_cannot_be_used_are_refused_in_one_line(code: Path, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refusal:
        learner_from(f"{code}:{name}")
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).count(f"{code}:{name}") == 1


@pytest.mark.parametrize(
    ("name", "error", "note"),
    [
        ("fails", ZeroDivisionError, "the function that makes the network anew"),
        ("misfit", RuntimeError, "Sequential on the inputs"),
    ],
)
def test_what_the_users_own_code_raises_keeps_its_type_and_gets_a_note(
    code: Path, name: str, error: type[Exception], note: str
) -> None:
    with pytest.raises(error) as raised:
        learner_from(f"{code}:{name}")
    assert note in raised.value.__notes__[0]
