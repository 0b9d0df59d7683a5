"""Plain networks: multilayer perceptrons with activations written in every way, and other ways to hold weights."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.interventions import Injectable
from tests.zoo.networks import Calls, Made, network

ROWS, INPUTS, WIDTH = 6, 4, 6


def rows(*shape: int) -> Tensor:
    return torch.randn(ROWS, *(shape or (INPUTS,)))


def layers(bias: bool = True) -> list[nn.Linear]:
    return [nn.Linear(a, b, bias) for a, b in ((INPUTS, WIDTH), (WIDTH, WIDTH), (WIDTH, 3))]


def three(forward: Any, kind: type[Calls] = Calls) -> nn.Module:
    """Three Linear layers, whose activations are written in some way."""
    return kind(forward, **dict(zip(("fc1", "fc2", "fc3"), layers(), strict=True)))


def mlp_of(first: nn.Module, second: nn.Module, third: nn.Module) -> nn.Sequential:
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)


@network("Sequential of Linear and ReLU", more={"capabilities": (Injectable("head"),)})
def mlp() -> Made:
    first, second, third = layers()
    body, head = nn.Sequential(first, nn.ReLU()), nn.Sequential(second, nn.ReLU(), third)
    return Calls(lambda self, x: self.head(self.body(x)), body=body, head=head), rows()


@network("F.relu")
def functional_relu() -> Made:
    return three(lambda self, x: self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))), rows()


@network("x.relu_(), in place")
def relu_in_place() -> Made:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        x = self.fc1(x)
        x.relu_()
        return self.fc3(F.relu(self.fc2(x), inplace=True))

    return three(forward), rows()


@network("F.gelu and torch.tanh", silent=False)
def functional_mixture() -> Made:
    return three(lambda self, x: self.fc3(torch.tanh(self.fc2(F.gelu(self.fc1(x)))))), rows()


@network("activations in a ModuleDict, layers in a ModuleList")
def lists_of_modules() -> Made:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        for act, layer in zip(self.acts.values(), self.layers, strict=False):
            x = act(layer(x))
        return self.layers[-1](x)

    acts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.ReLU()})
    return Calls(forward, acts=acts, layers=nn.ModuleList(layers())), rows()


@network("all frozen but the head")
def frozen_but_head() -> Made:
    first, second, third = layers()
    return mlp_of(first.requires_grad_(False), second.requires_grad_(False), third), rows()


@network("bfloat16", tolerance=0.05)
def half() -> Made:
    return mlp_of(*layers()).to(torch.bfloat16), rows().to(torch.bfloat16)


@network("Dropout, in training mode")
def dropout() -> Made:
    first, second, third = layers()
    return nn.Sequential(first, nn.ReLU(), nn.Dropout(0.3), second, nn.ReLU(), nn.Dropout(0.3), third), rows()


@network("Linears without bias", silent=False)
def no_bias() -> Made:
    return mlp_of(*layers(bias=False)), rows()


@network("own layers, whose parameters are made in __init__", fresh=True)
def own_layers() -> Made:
    class Own(nn.Module):
        def __init__(self, inputs: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(WIDTH, inputs) * inputs**-0.5)
            self.bias = nn.Parameter(torch.zeros(WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight.T + self.bias

    return mlp_of(Own(INPUTS), Own(WIDTH), nn.Linear(WIDTH, 3)), rows()


@network("outputs in nested dicts and tuples")
def nested_outputs() -> Made:
    class Net(Calls):
        def forward(self, x: Tensor) -> dict[str, object]:
            h = F.relu(self.fc2(F.relu(self.fc1(x))))
            return {"logits": self.fc3(h), "more": (h.mean(1), {"count": len(x), "nothing": None})}

    return three(None, Net), rows()


@network("a dictionary of inputs")
def dictionary_of_inputs() -> Made:
    module = three(lambda self, x: self.fc3(F.relu(self.fc2(F.relu(self.fc1(x["x"] * x["scale"]))))))
    return module, {"x": rows(), "scale": torch.ones(ROWS, 1)}
