"""Networks of vision apart from ViT: lists of layers and units, interventions on them, and what each has of its own."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.testing import assert_close

from supple.interventions import FireScope, Learner, activation, learner_for, make, redraw, unit_names
from supple.metrics import dfi_unscaled, measure
from supple.networks.activations import Units, initial_gain
from supple.tracks.vision.networks import VGG16, ConvNet, ResNet18, ViT
from supple.tracks.vision.networks.resnet import BasicBlock
from tests.tracks.logs import refusal

Build = Callable[..., ResNet18 | VGG16 | ViT]


def tiny_resnet(shape: tuple[int, int, int] = (3, 32, 32), **more: str) -> ResNet18:
    return ResNet18(shape, 5, width=4, **more)


def tiny_vgg(shape: tuple[int, int, int] = (3, 32, 32), **more: str) -> VGG16:
    return VGG16(shape, 5, width=4, **more)


def tiny_vit(shape: tuple[int, int, int] = (3, 32, 32), **more: str) -> ViT:
    return ViT(shape, 5, width=12, depth=2, patch=8, **more)


every_network = pytest.mark.parametrize("build", [tiny_resnet, tiny_vgg, tiny_vit])


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def images(n: int = 4) -> Tensor:
    return torch.randn(n, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def train_few_steps(build: Build) -> Learner:
    """A learner a few steps into training, with running statistics and an optimizer that have moved."""
    module = build()
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    x, y = images(8), torch.arange(8) % 5
    learner = learner_for(
        module, optimizer, probe=lambda: (x,), loss=lambda: F.cross_entropy(module(x), y),
        layers=module.layers(), units=unit_names(module),
    )  # fmt: skip
    learner.features = module.features
    learner.offer(FireScope(module.fire_scope))
    for _ in range(3):
        optimizer.zero_grad()
        learner.loss().backward()
        assert all(p.grad.any() for p in module.parameters())
        optimizer.step()
    return learner


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def changed(module: nn.Module, before: dict[str, Tensor]) -> set[str]:
    return {name for name, value in module.state_dict().items() if not torch.equal(value, before[name])}


def order_of_use(module: nn.Module, names: Sequence[str]) -> list[str]:
    """These submodules as a forward pass comes by them."""
    used: list[str] = []
    for name in names:
        module.get_submodule(name).register_forward_hook(lambda *_, name=name: used.append(name))
    module(images())
    return used


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: ResNet18((3, 32, 32), 10), 11_173_962),
        (lambda: VGG16((3, 224, 224), 1000, hidden=4096), 138_365_992),
        (lambda: VGG16((3, 32, 32), 10).encoder, 14_723_136),
        (lambda: ViT((3, 224, 224), 1000, patch=16), 5_717_416),
        (lambda: ViT((3, 32, 32), 100), 5_380_132),
    ],
)
def test_networks_have_the_published_numbers_of_parameters(build: Callable[[], nn.Module], expected: int) -> None:
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in build().parameters()) == expected


@every_network
def test_one_logit_for_each_class_of_each_image_which_does_not_see_others_in_evaluation(build: Build) -> None:
    for channels, height, width in ((3, 64, 64), (1, 32, 64)):
        assert build((channels, height, width))(torch.randn(2, channels, height, width)).shape == (2, 5)
    module, x = build().eval(), images()
    assert_close(module(x), torch.cat([module(image[None]) for image in x]), rtol=1e-4, atol=1e-5)
    assert torch.equal(fx.symbolic_trace(module)(x), module(x))


@every_network
def test_a_network_names_its_layers_units_and_features_in_the_order_of_use(build: Build) -> None:
    module = build(activation="elu")
    layers, elu = module.layers(), type(activation("elu"))
    names = [layer.name for layer in layers]
    assert sorted(names) == sorted(n for n, part in module.named_modules() if isinstance(part, (nn.Linear, nn.Conv2d)))
    # a shortcut's convolution is used last in its block and lies beside the first
    along = [name for name in names if "shortcut" not in name]
    assert order_of_use(module, along) == along
    assert [layer.depth for layer in layers] == sorted(layer.depth for layer in layers)
    assert [layer.role for layer in layers] == ["encoder", *["hidden"] * (len(names) - 2), "head"]
    assert (layers[0].weight.shape[1], layers[-1].weight.shape[0]) == (3, 5)
    assert set(unit_names(module)) == {name for name, part in module.named_modules() if isinstance(part, elu)}
    assert order_of_use(module, unit_names(module)) == list(unit_names(module))
    seen: list[Tensor] = []
    module.get_submodule(module.features or unit_names(module)[-1]).register_forward_hook(lambda *a: seen.append(a[2]))
    layers[-1].module.register_forward_hook(lambda *a: seen.append(a[1][0]))
    module(images())
    assert torch.equal(*seen), "features are the inputs of the head"


@pytest.mark.slow
@every_network
def test_interventions_write_what_they_name_in_place_and_metrics_nothing(build: Build) -> None:
    learner = train_few_steps(build)
    module, before = learner.module, state(learner.module)
    places = {name: (p.data_ptr(), p.stride()) for name, p in module.named_parameters()}
    assert {"dfi", "srank", "dormant_fraction", "gradient_norm"} <= measure(learner).keys()
    assert not changed(module, before)
    assert module.training

    shared = {name for name in learner.units if name == "activation" or name.endswith("activation2")}
    assert set(learner.wiring) == set(learner.units) - shared, "units are private but for those on a residual stream"
    redo = make("redo", tau=0.9)
    redo.attach(learner)
    assert redo.apply(learner)
    around = {name for wires in learner.wiring.values() for name in (*wires.incoming, *wires.outgoing, *wires.norms)}
    assert {name.rpartition(".")[0] for name in changed(module, before)} <= around

    before, scope = state(module), learner.select(learner.offers(FireScope).scope)
    fire = make("fire", method="polar")
    fire.attach(learner)
    fire.apply(learner)
    assert changed(module, before) == {f"{layer.name}.weight" for layer in scope}
    assert all(dfi_unscaled(layer.weight.detach()) < 1e-6 for layer in scope)

    make("reset").apply(learner)  # with the statistics of step 0
    torch.manual_seed(0)
    assert torch.equal(module.eval()(images()), build().eval()(images()))
    assert {name: (p.data_ptr(), p.stride()) for name, p in module.named_parameters()} == places


@every_network
@pytest.mark.parametrize("name", ["crelu", "swiglu", "prelu(granularity=neuron)"])
def test_activations_that_change_widths_or_have_parameters_fit(build: Build, name: str) -> None:
    assert build(activation=name)(images(2)).isfinite().all()


@every_network
def test_a_redraw_equals_building_the_network_again(build: Build) -> None:
    fresh = redraw(build(), torch.Generator().manual_seed(3))
    torch.manual_seed(int(torch.randint(2**62, (), generator=torch.Generator().manual_seed(3))))
    again = dict(build().named_parameters())
    assert fresh.keys() == again.keys()
    assert all(torch.equal(fresh[name], again[name]) for name in again)


def test_sizes_that_do_not_divide_are_refused() -> None:
    for build in (tiny_vgg, tiny_vit):
        assert "images of 28 × 32 do not fit, their sides must be multiples of" in refusal(build, (3, 28, 32))
    assert "3 heads cannot share a width of 16" in refusal(ViT, (3, 16, 16), 5, width=16)


def test_resnet18_halves_sides_between_stages_only_and_its_kernels_lie_channels_last() -> None:
    module, sides = ResNet18((3, 32, 32), 10, width=4), []
    names = [layer.name for layer in module.layers()]
    assert [name for name in names if "shortcut" in name] == [f"blocks.{i}.shortcut.0" for i in (2, 4, 6)]
    assert len(names) == 18 + 3
    assert all(each.weight.is_contiguous(memory_format=torch.channels_last) for each in module.layers()[:-1])
    for block in module.blocks:
        block.register_forward_hook(lambda _, __, output: sides.append(tuple(output.shape[1:])))
    module(torch.randn(1, 3, 32, 32))
    assert sides[::2] == sides[1::2] == [(4, 32, 32), (8, 16, 16), (16, 8, 8), (32, 4, 4)]


@pytest.mark.parametrize(("d_in", "stride"), [(8, 1), (4, 1), (4, 2)])
def test_a_block_adds_its_input_before_the_last_activation(d_in: int, stride: int) -> None:
    torch.manual_seed(0)
    block, x = BasicBlock(d_in, 8, stride, Units("relu")), torch.randn(5, d_in, 6, 6)

    def normalized(y: torch.Tensor) -> torch.Tensor:
        mean, variance = y.mean((0, 2, 3), keepdim=True), y.var((0, 2, 3), correction=0, keepdim=True)
        return (y - mean) / (variance + 1e-5).sqrt()

    hidden = normalized(F.conv2d(x, block.first[0].weight, stride=stride, padding=1)).relu()
    inner = normalized(F.conv2d(hidden, block.second[0].weight, padding=1))
    same = d_in == 8 and stride == 1
    assert isinstance(block.shortcut, nn.Identity) is same
    shortcut = x if same else normalized(F.conv2d(x, block.shortcut[0].weight, stride=stride))
    assert_close(block(x), (inner + shortcut).relu(), rtol=1e-4, atol=1e-5)


def test_vgg_has_thirteen_normalised_convolutions_and_the_classifier_of_hare_and_tortoise() -> None:
    with torch.device("meta"):
        module = VGG16((3, 64, 64), 200)
    *convolutions, first, second, head = (layer.weight for layer in module.layers())
    assert [len(weight) // 64 for weight in convolutions] == [1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 8, 8]
    assert all(weight.shape[2:] == (3, 3) for weight in convolutions)
    assert [tuple(weight.shape) for weight in (first, second, head)] == [(1024, 2048), (1024, 1024), (200, 1024)]
    kinds = [type(part) for part in module.encoder]
    for place in (i for i, kind in enumerate(kinds) if kind is nn.Conv2d):
        assert kinds[place + 1 : place + 3] == [nn.BatchNorm2d, nn.ReLU]
    assert kinds.count(nn.MaxPool2d) == 5


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "leaky_relu(negative_slope=0.7)", "tanh", "crelu"])
def test_the_case_studies_network_keeps_the_size_of_its_signal(activation: str) -> None:
    """Gains that fit the activation: the second convolution's outputs are as large as the first one's, which are as
    large as the pixels (times the gain)."""
    torch.manual_seed(0)
    net = ConvNet(2, (3, 32, 32), 10, activation)
    gain, sizes = initial_gain(net.encoder[1]), list[Tensor]()
    for part in (net.encoder[0], net.encoder[2]):
        part.register_forward_hook(lambda _m, _i, out: sizes.append(out.square().mean((1, 2, 3, 4))))
    with torch.no_grad():
        net(torch.randn(2, 64, 3, 32, 32) / gain)
    assert all(0.6 < size < 1.6 for size in torch.cat(sizes).tolist())
