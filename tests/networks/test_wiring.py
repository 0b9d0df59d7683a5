import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from supple.agents.dqn.network import ValueNetwork
from supple.envs import Picture
from supple.interventions import (
    StackedConv2d,
    StackedLayerNorm,
    StackedLinear,
    Wiring,
    activation,
    learner_for,
    trace_wiring,
    unit_names,
)
from supple.tracks.vision.networks import LARGE
from tests.zoo.networks import Calls


def wiring(*layers: nn.Module) -> dict[str, Wiring]:
    module = nn.Sequential(*layers)
    found, reasons = trace_wiring(module, unit_names(module))
    assert not reasons
    return found


def reasons(module: nn.Module, *units: str) -> dict[str, str]:
    return trace_wiring(module, units or unit_names(module))[1]


def linear() -> nn.Linear:
    return nn.Linear(4, 4)


# -- units that are private ----------------------------------------------------------------------------------


def test_units_of_a_stack_of_layers_lie_between_two_of_them():
    assert wiring(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), activation("smooth_leaky"), nn.Linear(8, 1)) == {
        "1": Wiring(("0",), ("2",)),
        "3": Wiring(("2",), ("4",)),
    }


def test_dropout_pooling_flattening_and_norms_lie_on_the_way():
    assert wiring(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(), nn.Conv2d(4, 6, 3),
        nn.GroupNorm(2, 6), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(6, 5),
        nn.Identity(), nn.LayerNorm(5), nn.Tanh(), nn.BatchNorm1d(5), nn.Linear(5, 2),
    ) == {
        "2": Wiring(("0",), ("5",), norms=("1",)),
        "7": Wiring(("5",), ("11",), norms=("6",)),
        "14": Wiring(("11",), ("16",), norms=("13", "15")),
    }  # fmt: skip


def test_functions_and_methods_count_as_their_modules_do():
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        h = F.max_pool2d(F.dropout(self.act(self.a(x)), 0.1, self.training), 2)
        return self.b(torch.flatten(h.contiguous(), 1).view(h.shape[0], -1))

    module = Calls(forward, a=nn.Conv2d(1, 4, 3), act=nn.ReLU(), b=nn.Linear(4, 2))
    assert trace_wiring(module, ["act"]) == ({"act": Wiring(("a",), ("b",))}, {})
    module(torch.randn(2, 1, 4, 4))  # it is a network


def test_stacks_are_wired_as_their_members():
    found = wiring(
        StackedConv2d(2, 1, 4, 3), nn.ReLU(), nn.Flatten(2), StackedLinear(2, 16, 6), StackedLayerNorm(2, 6), nn.ReLU(),
        StackedLinear(2, 6, 1),
    )  # fmt: skip
    assert found == {"1": Wiring(("0",), ("3",)), "5": Wiring(("3",), ("6",), norms=("4",))}


def test_all_heads_that_read_a_unit_are_outgoing():
    module = Calls(
        lambda self, x: (self.b(h := self.act(self.a(x))), self.c(h)), a=linear(), act=nn.ReLU(), b=linear(), c=linear()
    )
    assert trace_wiring(module, ["act"])[0] == {"act": Wiring(("a",), ("b", "c"))}


def test_a_unit_may_be_a_whole_block_or_a_layer_before_a_function():
    blocks = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 1))
    assert trace_wiring(blocks, ["1"])[0] == {"1": Wiring(("1.0",), ("2",))}
    module = Calls(lambda self, x: self.b(F.relu(self.a(x))), a=linear(), b=linear())
    assert trace_wiring(module, ["a"])[0] == {"a": Wiring(("a",), ("b",))}


def test_arithmetic_with_a_number_keeps_units_apart():
    module = Calls(
        lambda self, x: self.b(2 - self.act(self.a(x) / 3) * 0.5 + 1e-8), a=linear(), act=nn.ReLU(), b=linear()
    )
    assert trace_wiring(module, ["act"])[0] == {"act": Wiring(("a",), ("b",))}


def test_the_networks_of_the_project_are_wired():
    dqn = ValueNetwork(4 * 36 * 36, 6, (8,), "relu", torch.Generator(), picture=Picture(4, 36, 36))
    assert trace_wiring(dqn, unit_names(dqn)) == (
        {
            "encoder.1": Wiring(("encoder.0",), ("encoder.2",)),
            "encoder.3": Wiring(("encoder.2",), ("encoder.4",)),
            "encoder.5": Wiring(("encoder.4",), ("mlp.0",)),
            "mlp.1": Wiring(("mlp.0",), ("mlp.2",)),
        },
        {},
    )
    resnet = LARGE["resnet18"]((3, 32, 32), 10, width=2)
    private, shared = trace_wiring(resnet, unit_names(resnet))
    assert list(private) == [f"blocks.{i}.activation1" for i in range(8)]
    assert private["blocks.2.activation1"] == Wiring(
        ("blocks.2.first.0",), ("blocks.2.second.0",), norms=("blocks.2.first.1",)
    )
    assert list(shared) == ["activation", *(f"blocks.{i}.activation2" for i in range(8))]


# -- units that are not --------------------------------------------------------------------------------------


def residual(forward) -> nn.Module:
    return Calls(forward, a=linear(), act=nn.ReLU(), b=linear(), out=nn.ReLU(), c=linear())


def test_units_inside_a_residual_block_are_private_and_those_around_the_addition_are_not():
    learner = learner_for(residual(lambda self, x: self.c(self.out(self.b(self.act(self.a(x))) + x))))
    assert learner.units == ("act", "out")
    assert learner.wiring == {"act": Wiring(("a",), ("b",))}
    assert learner.unwired == {"out": "has no private incoming weights: its inputs come from 'add'"}
    module = residual(lambda self, x: self.c(self.out(self.b(h := self.act(self.a(x))) + h)))
    assert reasons(module, "act")["act"].endswith("its outputs reach 'add'")


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda self, x: self.act(self.a(x)), "its outputs are the network's output"),
        (lambda self, x: self.b(self.act(self.a(x)).softmax(-1)), "its outputs reach 'softmax'"),
        (lambda self, x: self.b(torch.cat([self.act(self.a(x)), x])), "its outputs reach 'cat'"),
        (lambda self, x: self.b(self.act(self.a(x)) * x), "its outputs reach 'mul'"),
        (lambda self, x: self.b(self.act(x)), "has no layer before it"),
        (lambda self, x: self.b(self.act(self.a(x) + self.b(x))), "come from 'add'"),
        (lambda self, x: self.b(self.act(h := self.a(x))) + h, r"'a' \(Linear\) is read by 'act' \(ReLU\) and 'add'"),
        (lambda self, x: self.b(self.b(self.act(self.a(x)))), "shares the weights of 'b'"),
        (lambda self, x: self.b(self.a(x)) if x.sum() > 0 else x, r"cannot be traced \(.*name the wiring"),
    ],
)
def test_units_of_which_others_depend_are_left_out_with_the_reason(forward, reason):
    module = Calls(forward, a=linear(), act=nn.ReLU(), b=linear())
    private, shared = trace_wiring(module, ["act"])
    assert not private
    assert re.search(reason, shared["act"])
    assert "\n" not in shared["act"]


def test_a_part_that_cannot_be_traced_may_name_its_wiring():
    part = Calls(
        lambda self, x: self.b(self.act(self.a(x))) if x.sum() > 0 else x, a=linear(), act=nn.ReLU(), b=linear()
    )
    module = nn.Sequential(part, nn.ReLU(), linear())
    assert not trace_wiring(module, ["0.act", "1"])[0]
    part.wiring = {"act": Wiring(("a",), ("b",))}
    private, shared = trace_wiring(module, ["0.act", "1"])
    assert private == {"0.act": Wiring(("0.a",), ("0.b",))}
    assert [*shared] == ["1"]


# -- what a learner makes of it ------------------------------------------------------------------------------


def test_units_without_a_wiring_belong_to_the_stack_that_is_defined_before_them():
    module = Calls(
        lambda self, x: self.b(self.act(self.a(x)) + x),
        a=StackedLinear(2, 4, 4),
        act=nn.ReLU(),
        b=StackedLinear(2, 4, 1),
    )
    learner = learner_for(module)
    assert not learner.wiring
    assert learner.is_stacked("act")


class Cosine(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.normalize(x, dim=-1), F.normalize(self.weight, dim=-1))


class Reversed(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return x.flip(-1)


def test_a_layer_with_a_forward_of_its_own_may_mix_units():
    assert reasons(nn.Sequential(linear(), nn.ReLU(), Cosine(4, 4)))["1"].endswith(
        "'2' (Cosine) uses its weights in a way of its own"
    )
    assert "'0' (Cosine)" in reasons(nn.Sequential(Cosine(4, 4), nn.ReLU(), linear()))["1"]
    assert reasons(nn.Sequential(linear(), nn.ReLU(), Reversed(), linear()))["1"].endswith("reach '2' (Reversed)")
