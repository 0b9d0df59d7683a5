"""A look at a network leaves it as it was: values, objects, attributes and generators."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.metrics import diagnose, trainability
from supple.networks import learner_for, record, snapshot, unchanged
from supple.networks.unchanged import outputs_with
from tests.zoo.networks import Calls
from tests.zoo.state import take

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def tied() -> Calls:
    parts = {"a": nn.Linear(4, 4), "act": nn.ReLU(), "b": nn.Linear(4, 4)}
    parts["b"].weight = parts["a"].weight
    return Calls(lambda self, x: self.b(self.act(self.a(x))), **parts)


class Restless(nn.Module):
    """Everything that a forward pass in evaluation mode may do."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3, 4, max_norm=0.1)
        self.first, self.act, self.second = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("last", torch.zeros(()))
        self.own = torch.Generator().manual_seed(3)
        self.numpy_draws = np.random.default_rng(4)
        self.calls, self.features, self.sums = 0, [], torch.zeros(8)

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.last = x.mean()
        self.calls += 1
        h = F.dropout(self.act(self.first(x + self.table(torch.tensor(1)))), 0.5)  # also in evaluation mode
        self.features.append(h)
        self.sums += h.detach().sum(0)
        noise = torch.randn(h.shape, generator=self.own).sum() + float(self.numpy_draws.random() + random.random())
        return self.second(h) + noise + float(np.random.random())  # noqa: NPY002


def everything(module: nn.Module) -> dict[str, object]:
    return {path: value for path, (value, _) in take(module).items()}


@pytest.mark.parametrize("wrap", [lambda module: module, nn.DataParallel])
def test_measuring_changes_nothing(wrap):
    module = wrap(Restless())
    optimizer = torch.optim.Adam(module.parameters())

    def loss() -> Tensor:
        return module(X).square().mean()

    for _ in range(2):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    before = everything(module)
    learner = learner_for(module, optimizer, probe=lambda: (X,), loss=loss)
    record(module, learner.units, (X,))
    trainability(learner, 2)
    diagnose(learner, 2)
    with torch.no_grad():
        outputs_with(module, {name: value + 1 for name, value in learner.initial.items()}, (X,))
    assert everything(module) == before


def test_other_values_reach_every_place_of_a_tensor_and_the_gradient_reaches_them():
    module = tied()
    values = {name: value.requires_grad_(value.is_floating_point()) for name, value in snapshot(module).items()}
    with torch.no_grad():
        values["a.weight"].mul_(2)
    outputs = outputs_with(module, values, (X,))
    w = values["a.weight"]
    by_hand = F.linear(F.linear(X, w, module.a.bias).relu(), w, module.b.bias)
    torch.testing.assert_close(outputs, by_hand)
    (gradient,) = torch.autograd.grad(outputs.sum(), w)
    (expected,) = torch.autograd.grad(by_hand.sum(), w)
    torch.testing.assert_close(gradient, expected)


def test_other_values_include_those_of_buffers_and_are_not_written():
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    start = snapshot(module)
    module.train()(X * 10)
    module.eval()
    with torch.no_grad():
        now, then = module(X), outputs_with(module, start, (X,))
        torch.testing.assert_close(then, module[0](X) / (1 + 1e-5) ** 0.5)
    assert not torch.allclose(now, then)


def test_an_error_in_a_pass_leaves_the_network_as_it_was():
    module = Restless()
    module.second.register_forward_hook(lambda *_: 1 / 0)
    before = everything(module)
    with pytest.raises(ZeroDivisionError), unchanged(module):
        module(X)
    assert everything(module) == before


def test_inputs_that_a_network_writes_into_are_kept():
    parts = {"first": nn.Linear(4, 8), "act": nn.ReLU(), "second": nn.Linear(8, 2)}
    writes = Calls(lambda self, x: self.second(self.act(self.first(x.clamp_(-0.1, 0.1)))), **parts)
    for module, unit in ((writes, "act"), (nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2)), "0")):
        inputs = X.clone()
        record(module, [unit], (inputs,))
        outputs_with(module, snapshot(module), (inputs,))
        assert torch.equal(inputs, X)


class Records:
    """Statistics as agents keep them, in an object that is no module."""

    def __init__(self) -> None:
        self.mean, self.count, self.last = np.zeros(4), 0, torch.zeros(4)


class Nested(nn.Module):
    """Writes into containers in containers, arrays, and the attributes of an object, in evaluation mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.records = nn.Linear(4, 2), Records()
        self.array = np.zeros(4)
        self.log = {"rows": [0], "sums": {"x": torch.zeros(4)}}
        self.states = (torch.zeros(4), [])

    def forward(self, x: Tensor) -> Tensor:
        self.records.mean += 1
        self.records.count += 1
        self.records.last = x.mean(0)
        self.array += 1
        self.log["rows"].append(1)
        self.log["sums"]["x"] += 1
        self.states[0].add_(1)
        self.states[1].append(x)
        return self.layer(x)


def contents(module: Nested) -> str:
    return repr((vars(module.records), module.array, module.log, module.states))


def test_contents_of_attributes_are_kept_however_deep():
    module = Nested()
    before = contents(module)
    with unchanged(module):
        module(X)
        assert contents(module) != before
    assert contents(module) == before


def test_large_arrays_are_not_copied():
    module = Nested()
    module.memory = np.zeros(2**20 + 1)
    with unchanged(module):
        module.memory[0] = 1
    assert module.memory[0] == 1


def test_draws_of_a_function_that_is_called_instead_are_kept():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    before = everything(module)
    record(module, ["1"], (X,), lambda x: module(x + torch.rand_like(x)))
    assert everything(module) == before


def test_a_network_that_merges_weights_in_eval_is_not_merged():
    class Merging(nn.Linear):
        def train(self, mode: bool = True) -> nn.Module:
            with torch.no_grad():
                self.weight += 0 if mode else 1
            return super().train(mode)

    module = Merging(4, 2)
    before = everything(module)
    trainability(learner_for(module, probe=lambda: (X,), loss=lambda: module(X).square().mean()), updates=1)
    assert everything(module) == before


def test_tracing_leaves_no_tensors_behind():
    module = Calls(lambda self, x: self.b(self.act(self.a(x) + torch.ones(4))), a=nn.Linear(4, 4), act=nn.ReLU(),
                   b=nn.Linear(4, 2))  # fmt: skip
    before = set(vars(module))
    learner_for(module)
    assert set(vars(module)) == before


def test_a_learner_of_a_scripted_module_is_refused():
    with pytest.raises(ValueError, match=r"'model' is scripted \(torch.jit\)"):
        learner_for(torch.jit.script(nn.Sequential(nn.Linear(4, 2))))
