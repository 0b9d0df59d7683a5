"""Plain networks: multilayer perceptrons with activations written in every way, and other ways to hold weights."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.interventions import Injectable
from tests.zoo.networks import Made, network

ROWS, INPUTS, WIDTH = 6, 4, 6


def rows(*shape: int) -> Tensor:
    return torch.randn(ROWS, *(shape or (INPUTS,)))


def layers(*, first: int = INPUTS) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    return nn.Linear(first, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)


class Three(nn.Module):
    """Three Linear layers, whose activations a subclass writes in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = layers()


def by_hand(module: nn.Module, x: Tensor) -> list[Tensor]:
    """The units of three Linear layers with ReLUs between them."""
    first, second, _ = [part for part in module.modules() if isinstance(part, nn.Linear)]
    h1 = (x @ first.weight.T + first.bias).clamp_min(0)
    return [h1, (h1 @ second.weight.T + second.bias).clamp_min(0)]


UNITS = ("redo", "cbp", "snr", "regrama")
ALL = ("fire", "reset", "snp", *UNITS)


@network(
    "Sequential of Linear and ReLU",
    hidden=by_hand,
    acts=(*ALL, "injection"),
    more={"capabilities": (Injectable("head"),)},
)
def mlp() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first, second, third = layers()
            self.body = nn.Sequential(first, nn.ReLU())
            self.head = nn.Sequential(second, nn.ReLU(), third)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x))

    return Net(), rows()


@network("F.relu", hidden=by_hand, acts=ALL)
def functional_relu() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    return Net(), rows()


@network("x.relu_(), in place", hidden=by_hand, acts=ALL)
def relu_in_place() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            x = self.fc1(x)
            x.relu_()
            return self.fc3(F.relu(self.fc2(x), inplace=True))

    return Net(), rows()


@network("F.gelu and torch.tanh", acts=("fire", "reset"))
def functional_mixture() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(torch.tanh(self.fc2(F.gelu(self.fc1(x)))))

    return Net(), rows()


@network("activations in a ModuleDict, layers in a ModuleList", hidden=by_hand, acts=ALL)
def lists_of_modules() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.acts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.ReLU()})
            self.layers = nn.ModuleList(layers())

        def forward(self, x: Tensor) -> Tensor:
            for act, layer in zip(self.acts.values(), self.layers, strict=False):
                x = act(layer(x))
            return self.layers[-1](x)

    return Net(), rows()


@network("all frozen but the head", hidden=by_hand, acts=("reset", "snp", "fire"))
def frozen_but_head() -> Made:
    first, second, third = layers()
    for layer in (first, second):
        layer.requires_grad_(False)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), rows()


@network("bfloat16", hidden=by_hand, acts=ALL, tolerance=0.05)
def half() -> Made:
    first, second, third = layers()
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third).to(torch.bfloat16), rows().to(torch.bfloat16)


@network("Dropout, in training mode", hidden=by_hand, acts=ALL)
def dropout() -> Made:
    first, second, third = layers()
    return nn.Sequential(first, nn.ReLU(), nn.Dropout(0.3), second, nn.ReLU(), nn.Dropout(0.3), third), rows()


@network("Linears without bias", acts=("fire", "reset", "snp", "redo"))
def no_bias() -> Made:
    sizes = ((INPUTS, WIDTH), (WIDTH, WIDTH), (WIDTH, 3))
    first, second, third = (nn.Linear(i, o, bias=False) for i, o in sizes)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), rows()


@network("own layers, whose parameters are made in __init__", fresh=True, acts=("reset", "snp"))
def own_layers() -> Made:
    class Own(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5)
            self.bias = nn.Parameter(torch.zeros(outputs))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight.T + self.bias

    return nn.Sequential(Own(INPUTS, WIDTH), nn.ReLU(), Own(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)), rows()


@network("outputs in nested dicts and tuples", acts=("fire", "reset"))
def nested_outputs() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.act1, self.act2 = nn.ReLU(), nn.ReLU()

        def forward(self, x: Tensor) -> dict[str, object]:
            h = self.act2(self.fc2(self.act1(self.fc1(x))))
            return {"logits": self.fc3(h), "more": (h.mean(1), {"count": len(x), "nothing": None})}

    return Net(), rows()


@network("a dictionary of inputs", acts=("fire", "reset", "redo"))
def dictionary_of_inputs() -> Made:
    class Net(Three):
        def forward(self, batch: dict[str, Tensor]) -> Tensor:
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(batch["x"] * batch["scale"])))))

    return Net(), {"x": rows(), "scale": torch.ones(ROWS, 1)}
