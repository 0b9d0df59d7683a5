"""Forward passes that bypass the calls of modules."""

import pytest
import torch
from torch import Tensor, nn

from supple.networks import StackedLinear, activation, direct
from supple.networks.activations import parse_activation
from supple.networks.inference import CompiledForward


def body() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(5, 16), nn.LayerNorm(16), nn.LeakyReLU(), nn.Sequential(nn.Linear(16, 8, bias=False))
    )


@torch.no_grad()
def test_it_computes_what_the_modules_compute_to_the_bit_now_and_after_changes_in_place() -> None:
    first, second = body(), nn.Linear(8, 3)
    forward = direct(first, second)
    for rows in (1, 2, 17):
        first[0].weight.mul_(1.5)
        inputs = torch.randn(rows, 5)
        assert torch.equal(forward(inputs), second(first(inputs)))


@pytest.mark.parametrize(("place", "before"), [("0", True), ("2", False), ("3", True), ("3", False)])
@torch.no_grad()
def test_hooks_of_modules_and_of_containers_are_called(place: str, before: bool) -> None:
    network, inputs = body(), torch.randn(4, 5)
    part = network.get_submodule(place)
    if before:
        part.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    else:
        part.register_forward_hook(lambda module, args, output: output + 1)
    assert torch.equal(direct(network)(inputs), network(inputs))
    assert not torch.equal(direct(network)(inputs), direct(body())(inputs))


@torch.no_grad()
def test_subclasses_of_linear_layers_keep_their_own_forward() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    layer, inputs = Doubled(5, 3), torch.randn(2, 5)
    assert torch.equal(direct(layer)(inputs), layer(inputs))


@torch.no_grad()
def test_random_activations_draw_as_often_as_in_a_call() -> None:
    network, inputs = nn.Sequential(nn.Linear(5, 8), activation("rrelu")), torch.randn(4, 5)
    forward = direct(network)
    torch.manual_seed(3)
    expected = [network(inputs) for _ in range(2)]
    torch.manual_seed(3)
    assert all(torch.equal(forward(inputs), outputs) for outputs in expected)
    assert not torch.equal(*expected)
    network.eval()
    assert torch.equal(forward(inputs), network(inputs))


@pytest.mark.parametrize("stack", [0, 3])
@pytest.mark.parametrize("name", ["tanh", "relu", "leaky_relu(negative_slope=0.1)"])
@torch.no_grad()
def test_compiled_networks_have_the_outputs_of_the_modules_up_to_rounding(stack: int, name: str) -> None:
    torch.manual_seed(0)
    layers = [StackedLinear(stack, *sizes) if stack else nn.Linear(*sizes) for sizes in ((5, 33), (33, 16), (16, 2))]
    network = nn.Sequential(layers[0], parse_activation(name), nn.Sequential(layers[1], parse_activation(name)))
    forward = direct(network, layers[2], compiled=True)
    assert isinstance(forward, CompiledForward)
    for rows in (1, 2, 8, 9):
        layers[1].weight.mul_(1.5)
        inputs = torch.randn(*([stack] if stack else []), rows, 5)
        torch.testing.assert_close(forward(inputs), layers[2](network(inputs)), rtol=1e-5, atol=1e-6)
    assert forward(inputs[..., :1, :] * torch.nan).isnan().all()


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Linear(5, 8), nn.ELU()),
        nn.Sequential(nn.Tanh(), nn.Linear(5, 8)),
        nn.Sequential(nn.Linear(5, 8, bias=False)),
        nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Tanh()),
        nn.Sequential(nn.Linear(5, 1025)),
        nn.Linear(5, 8, dtype=torch.float64),
        nn.utils.parametrizations.spectral_norm(nn.Linear(5, 8)),
    ],
)
def test_other_networks_are_not_compiled(network: nn.Module) -> None:
    assert not isinstance(direct(network, compiled=True), CompiledForward)


def test_networks_with_hooks_are_not_compiled() -> None:
    for path in ("", "0"):
        network = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
        network.get_submodule(path).register_forward_hook(lambda module, args, output: output + 1)
        assert not isinstance(direct(network, compiled=True), CompiledForward)
