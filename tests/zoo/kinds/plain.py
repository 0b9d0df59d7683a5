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


@network("one nn.ReLU() between several layers", hidden=by_hand, acts=ALL)
def shared_relu() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(self.act(self.fc2(self.act(self.fc1(x)))))

    return Net(), rows()


@network("F.relu", hidden=by_hand, acts=ALL)
def functional_relu() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))

    return Net(), rows()


@network("torch.relu", hidden=by_hand, acts=ALL)
def torch_relu() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))

    return Net(), rows()


@network("x.relu()", hidden=by_hand, acts=ALL)
def method_relu() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(self.fc2(self.fc1(x).relu()).relu())

    return Net(), rows()


@network("x.relu_(), in place", hidden=by_hand, acts=ALL)
def relu_in_place() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            x = self.fc1(x)
            x.relu_()
            return self.fc3(F.relu(self.fc2(x), inplace=True))

    return Net(), rows()


@network("x.clamp(min=0) for a ReLU")
def clamp_for_relu() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(self.fc2(self.fc1(x).clamp(min=0)).clamp_min(0))

    return Net(), rows()


@network("F.gelu and torch.tanh", acts=("fire", "reset"))
def functional_mixture() -> Made:
    class Net(Three):
        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(torch.tanh(self.fc2(F.gelu(self.fc1(x)))))

    return Net(), rows()


@network("ReLUs defined after the Linears", hidden=by_hand, acts=ALL)
def relus_last() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(self.relu2(self.fc2(self.relu1(self.fc1(x)))))

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


@network("module and function mixed", hidden=by_hand, acts=ALL)
def module_and_function() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(F.relu(self.fc2(self.act(self.fc1(x)))))

    return Net(), rows()


@network("layers of frozen parameters", hidden=by_hand, acts=("reset", "snp", "fire"))
def frozen_layers() -> Made:
    first, second, third = layers()
    first.requires_grad_(False)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), rows()


@network("all frozen but the head", hidden=by_hand, acts=("reset", "snp", "fire"))
def frozen_but_head() -> Made:
    first, second, third = layers()
    for layer in (first, second):
        layer.requires_grad_(False)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), rows()


@network("everything frozen", hidden=by_hand)
def frozen() -> Made:
    first, second, third = layers()
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third).requires_grad_(False), rows()


@network("frozen biases", hidden=by_hand, acts=("reset", "snp", "fire"))
def frozen_biases() -> Made:
    module = nn.Sequential(*[part for layer in layers() for part in (layer, nn.ReLU())][:-1])
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.endswith("bias"))
    return module, rows()


@network("bfloat16", hidden=by_hand, acts=ALL, tolerance=0.05)
def half() -> Made:
    first, second, third = layers()
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third).to(torch.bfloat16), rows().to(torch.bfloat16)


@network("float64", hidden=by_hand, acts=ALL, tolerance=1e-12)
def double() -> Made:
    first, second, third = layers()
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third).double(), rows().double()


@network("no parameter at all")
def no_parameters() -> Made:
    return nn.Sequential(nn.Flatten(), nn.ReLU()), rows(2, 2)


@network("one Linear, no units", acts=("fire", "reset", "snp"), refuses=UNITS)
def linear_alone() -> Made:
    return nn.Linear(INPUTS, 4), rows()


@network("a layer that the forward pass does not use", acts=("fire", "reset", "snp"))
def unused_layer() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.act1, self.act2 = nn.ReLU(), nn.ReLU()
            self.auxiliary = nn.Sequential(nn.Linear(WIDTH, 5), nn.ReLU(), nn.Linear(5, 2))

        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(self.act2(self.fc2(self.act1(self.fc1(x)))))

    return Net(), rows()


@network("Dropout, in training mode", hidden=by_hand, acts=ALL)
def dropout() -> Made:
    first, second, third = layers()
    return nn.Sequential(first, nn.ReLU(), nn.Dropout(0.3), second, nn.ReLU(), nn.Dropout(0.3), third), rows()


@network("Identity, nested Sequentials", hidden=by_hand, acts=ALL)
def nested() -> Made:
    first, second, third = layers()
    return nn.Sequential(
        nn.Sequential(nn.Sequential(first), nn.ReLU()), nn.Identity(), second, nn.ReLU(), third
    ), rows()


@network("Linears without bias", acts=("fire", "reset", "snp", "redo"))
def no_bias() -> Made:
    sizes = ((INPUTS, WIDTH), (WIDTH, WIDTH), (WIDTH, 3))
    first, second, third = (nn.Linear(i, o, bias=False) for i, o in sizes)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), rows()


@network("weights in ParameterList and ParameterDict", acts=("snp",))
def parameter_list() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList([torch.randn(INPUTS, WIDTH) * 0.3, torch.randn(WIDTH, 3) * 0.3])
            self.shifts = nn.ParameterDict({"a": nn.Parameter(torch.zeros(WIDTH)), "b": nn.Parameter(torch.zeros(3))})

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x @ self.weights[0] + self.shifts["a"]) @ self.weights[1] + self.shifts["b"]

    return Net(), rows()


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


@network("weights in a list of plain tensors", acts=("fire", "reset"))
def plain_tensors() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = [torch.randn(INPUTS, INPUTS, requires_grad=True) for _ in range(2)]
            self.fc1, self.act, self.fc2 = nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            for weight in self.weights:
                x = torch.tanh(x @ weight)
            return self.fc2(self.act(self.fc1(x)))

    return Net(), rows()


@network("a plain tensor as weight attribute", acts=("fire", "reset"))
def weight_attribute() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.projection = torch.randn(INPUTS, INPUTS)
            self.fc1, self.fc2 = nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc2(F.relu(self.fc1(F.linear(x, self.projection))))

    return Net(), rows()


@network("parameters of integers and of booleans", acts=("fire", "reset"))
def integer_parameter() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.act1, self.act2 = nn.ReLU(), nn.ReLU()
            self.codes = nn.Parameter(torch.randint(-9, 9, (WIDTH,), dtype=torch.int8), requires_grad=False)
            self.mask = nn.Parameter(torch.arange(WIDTH) % 2 == 0, requires_grad=False)

        def forward(self, x: Tensor) -> Tensor:
            h = self.act1(self.fc1(x)) * (1 + self.mask.float()) + self.codes.float() / 9
            return self.fc3(self.act2(self.fc2(h)))

    return Net(), rows()


@network("lazy layers that have been called once", acts=("fire", "reset", "snp"))
def lazy_called() -> Made:
    module, x = nn.Sequential(nn.LazyLinear(WIDTH), nn.ReLU(), nn.LazyLinear(3)), rows()
    module(x)
    return module, x


@network("lazy layers without values", refuses=("fire", "reset", "snp", *UNITS))
def lazy() -> Made:
    return nn.Sequential(nn.LazyLinear(WIDTH), nn.ReLU(), nn.LazyLinear(3)), rows()


@network("meta tensors", refuses=("fire", "reset", "snp", *UNITS))
def meta() -> Made:
    with torch.device("meta"):
        first, second, third = layers()
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), rows()


@network("keyword inputs", forward=lambda module, x, scale: module(x=x, scale=scale), acts=("fire", "reset", "redo"))
def keyword_inputs() -> Made:
    class Net(Three):
        def __init__(self) -> None:
            super().__init__()
            self.act1, self.act2 = nn.ReLU(), nn.ReLU()

        def forward(self, *, x: Tensor, scale: float = 1.0) -> Tensor:
            return self.fc3(self.act2(self.fc2(self.act1(self.fc1(x))))) * scale

    return Net(), rows(), 2.0


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
