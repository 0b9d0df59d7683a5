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
from tests.zoo.state import take

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


class TwoHeads(nn.Module):
    """One body, registered in two heads, as in Stable-Baselines3's default CnnPolicy."""

    def __init__(self) -> None:
        super().__init__()
        body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.actor = nn.ModuleDict({"body": body, "head": nn.Linear(8, 2)})
        self.critic = nn.ModuleDict({"body": body, "head": nn.Linear(8, 1)})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor["head"](self.actor["body"](x)), self.critic["head"](self.critic["body"](x))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.act, self.b = nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.act(self.a(x)))


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


def model_of(kind: str) -> nn.Module:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return {
        "two heads": TwoHeads, "tied": Tied, "restless": Restless,
        "parametrized": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8)), *plain[1:]),
        "weight norm": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 8)), *plain[1:]),
        "compiled": lambda: torch.compile(plain, backend="eager"),
        "wrapped": lambda: nn.DataParallel(plain),
        "recurrent": Recurrent,
    }[kind]()  # fmt: skip


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.act, self.head = nn.GRU(4, 5), nn.ReLU(), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.cell(x)[0]))


def everything(module: nn.Module) -> dict[str, object]:
    return {path: value for path, (value, _) in take(module).items()}


KINDS = ("two heads", "tied", "restless", "parametrized", "weight norm", "compiled", "wrapped", "recurrent")


@pytest.mark.parametrize("kind", KINDS)
def test_measuring_changes_nothing(kind):
    module = model_of(kind)
    optimizer = torch.optim.Adam(module.parameters())

    def loss() -> Tensor:
        outputs = module(X)
        return sum(o.square().mean() for o in (outputs if isinstance(outputs, tuple) else (outputs,)))

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
    after = everything(module)
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == []


def test_other_values_reach_every_place_of_a_tensor_and_the_gradient_reaches_them():
    module = Tied()
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
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.act, self.second = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.act(self.first(x.clamp_(-0.1, 0.1))))

    for module, unit in ((Writes(), "act"), (nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2)), "0")):
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


def contents(module: Nested) -> list[object]:
    records, log, states = module.records, module.log, module.states
    values = [records.mean, records.last, module.array, log["sums"]["x"], states[0]]
    return [*(value.tolist() for value in values), records.count, list(log["rows"]), len(states[1])]


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


def test_modules_of_torch_that_draw_count_or_watch_are_kept():
    pool = nn.Sequential(nn.Conv2d(1, 2, 3), nn.FractionalMaxPool2d(2, output_size=2))
    quantised = torch.ao.quantization.MinMaxObserver()
    graph = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.Dropout()))
    graph.graph.call_function(torch.rand, (1,))
    graph.recompile()
    for module, x in ((pool, X.view(6, 1, 2, 2).repeat(1, 1, 4, 4)), (quantised, X), (graph, X)):
        before = everything(module)
        with unchanged(module):
            module(x)
        assert everything(module) == before


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
    class Shifted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.ones(4)

    module = nn.Sequential(nn.Linear(4, 4), Shifted(), nn.ReLU(), nn.Linear(4, 2))
    before = set(vars(module))
    learner_for(module)
    assert set(vars(module)) == before


def test_a_learner_of_a_scripted_module_is_refused():
    with pytest.raises(ValueError, match=r"'model' is scripted \(torch.jit\)"):
        learner_for(torch.jit.script(nn.Sequential(nn.Linear(4, 2))))
