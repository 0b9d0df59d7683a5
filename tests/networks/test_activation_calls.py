"""Units are calls of activations: of modules, shared or not, and of functions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.interventions import make, parse_hook
from supple.metrics import measure
from supple.networks import learner_for, record, unit_names
from tests.zoo.networks import Calls

X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Three layers of 8 units, with an activation as the subclass calls it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.c, self.head = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.act = nn.ReLU()
        with torch.no_grad():
            self.b.bias.fill_(-100.0)  # all dormant, so that the layers differ

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.c(self.act(self.b(self.act(self.a(x)))))))


class Functions(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.c(torch.relu(self.b(F.relu(self.a(x))))).relu())


class Mixed(Net):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.head(self.act(self.c(F.relu_(self.b(self.act(self.a(x))))))))


class Branching(Net):
    """Not to be traced."""

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.b(F.relu(self.a(x))))
        return self.head(F.relu(self.c(h)) if h.sum() > -1 else h)


class Agent(nn.Module):
    """As in CleanRL: no forward."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.actor, self.critic = nn.Linear(8, 2), nn.Linear(8, 1)

    def get_value(self, x: Tensor) -> Tensor:
        return self.critic(self.body(x))


def learner(module: nn.Module, **more):
    return learner_for(module, probe=lambda: (X,), loss=lambda: module(X).square().mean(), **more)


NAMES = {
    Net: ("act", "act#2", "act#3"),
    Functions: ("F.relu", "F.relu#2", "F.relu#3"),
    Mixed: ("act", "F.relu", "act#2"),
    Branching: ("F.relu", "F.relu#2", "F.relu#3"),
}


@pytest.mark.parametrize("kind", NAMES)
def test_every_call_counts_and_is_measured_on_its_own(kind):
    module = kind()
    subject = learner(module)
    assert subject.units == NAMES[kind]
    numbers = measure(subject, per_layer=True)
    with torch.no_grad():
        a = module.a(X).relu()
        b = module.b(a).relu()
        c = module.c(b).relu()
    dormant = [float((layer == 0).all(0).double().mean()) for layer in (a, b, c)]
    assert [numbers[f"dormant_fraction/{unit}"] for unit in NAMES[kind]] == pytest.approx(dormant)
    assert numbers["dormant_fraction"] == pytest.approx(sum(dormant) / 3)
    assert numbers["saturated_fraction"] == pytest.approx(float((torch.cat([a, b, c]) <= 0).double().mean()))


@pytest.mark.parametrize("kind", [Net, Functions, Mixed])
def test_redo_renews_the_dormant_units_of_the_right_call_and_keeps_the_outputs(kind):
    module = kind()
    subject = learner(module)
    assert [subject.wiring[u].incoming for u in NAMES[kind]] == [("a",), ("b",), ("c",)]
    assert [subject.wiring[u].outgoing for u in NAMES[kind]] == [("b",), ("c",), ("head",)]
    before, weight = module(X).detach(), module.b.weight.detach().clone()
    assert {"b.weight", "b.bias", "c.weight"} <= set(make("redo", tau=0.0).apply(subject))
    assert not torch.equal(module.b.weight, weight)
    torch.testing.assert_close(module(X).detach(), before)


def test_units_are_found_without_data_and_in_the_order_of_use():
    parts = {"first": nn.Linear(4, 8), "second": nn.Linear(8, 2), "late": nn.ReLU()}
    late = Calls(lambda self, x: self.second(self.late(self.first(x))), **parts)
    assert unit_names(late) == ("late",)
    assert unit_names(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2), nn.Tanh())) == ("1",)
    branches = Calls(lambda self, x: self.second(self.late(self.first(x))) if x.sum() else x, **parts, out=nn.Tanh())
    assert unit_names(branches) == ()  # which cannot be traced: those that are defined before the last layer
    assert unit_names(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), branches)) == ("1",)


def test_a_recording_is_not_spoilt_by_later_operations_in_place():
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        out = self.b(h := self.act(self.a(x)))
        h.zero_()
        return out

    module = Calls(forward, a=nn.Linear(4, 8), act=nn.ReLU(), b=nn.Linear(8, 2))
    recorded = record(module, ["act"], (X,))
    torch.testing.assert_close(recorded["act"].output, module.a(X).relu().detach())
    torch.testing.assert_close(recorded["act"].input, module.a(X).detach())


def test_a_call_that_does_not_happen_is_refused_by_name():
    with pytest.raises(ValueError, match=r"does not call 'act#9'"):
        learner(Net(), units=("act#9",))


def test_a_network_without_forward_is_run_by_a_method_or_a_function():
    with pytest.raises(ValueError, match="Agent has no forward: name what runs it"):
        learner(Agent())
    with pytest.raises(ValueError, match="Agent has no method 'get_valeu': did you mean 'get_value'"):
        learner(Agent(), forward="get_valeu")
    agent = Agent()
    data = {"probe": lambda: (X,), "loss": lambda: agent.get_value(X).mean()}
    value = learner_for(agent, **data, forward="get_value")
    assert (value.units, value.wiring["body.1"].outgoing) == (("body.1",), ("critic",))
    both = learner_for(agent, **data, forward=lambda agent, x: (agent.actor(h := agent.body(x)), agent.critic(h)))
    assert both.wiring["body.1"].outgoing == ("actor", "critic")
    assert measure(both)["dormant_fraction"] == 0


def test_what_needs_no_units_asks_for_none_and_what_does_refuses_at_the_start():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    subject = learner(module)
    assert subject.units == ()
    assert "dormant_fraction" not in measure(subject)
    make("fire").attach(subject)
    for name in ("redo", "l2_er"):
        with pytest.raises(ValueError, match="'model' has no hidden units"):
            make(name).attach(subject)


def test_what_works_on_modules_alone_refuses_functions_and_shared_modules():
    for name in ("nap", "swap(activation=elu)"):
        hook = parse_hook(f"{name}@start")
        with pytest.raises(ValueError, match=r"'F.relu' is a function, not a module"):
            hook.intervention.attach(learner(Functions()))
        with pytest.raises(ValueError, match="'act' is called several times"):
            hook.intervention.attach(learner(Net()))


def test_a_condition_can_name_the_units_of_a_function():
    assert parse_hook("fire@when:dormant_fraction/F.relu#2>0.3").schedule.metric == "dormant_fraction/F.relu#2"
