import math

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import StackedConv2d, StackedLinear, isometry
from supple.interventions.isometry import fire_
from supple.interventions.orthogonalize import orthogonalize
from supple.networks import isometry_scale
from supple.networks.matrices import Weight


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 8, (3, 2)),
        nn.Flatten(),
        nn.Linear(8, 8),
        nn.LayerNorm(8),
        nn.Linear(8, 8),
        nn.Linear(8, 5),
    )


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def by_plain_loop(weight: Tensor, **settings) -> Tensor:
    scale = math.sqrt(weight.shape[0] / weight.shape[1])
    if weight.ndim == 2:
        return orthogonalize(weight, **settings) * scale
    flat, taps = weight.flatten(2), math.prod(weight.shape[2:])
    slices = [orthogonalize(flat[:, :, i], **settings) * scale / taps for i in range(taps)]
    return torch.stack(slices, dim=2).view(weight.shape)


@pytest.mark.parametrize(
    ("shape", "scale"),
    [((8, 2), 2.0), ((2, 8), 0.5), ((8, 2, 5), 0.4), ((8, 2, 3, 3), 2 / 9), ((4, 4, 2, 3, 4), 1 / 24)],
)
def test_isometry_scale_is_that_of_appendix_c(shape, scale):
    assert isometry_scale(torch.empty(shape)) == pytest.approx(scale)


@pytest.mark.parametrize(
    "settings", [{}, {"method": "polar"}, {"method": "polar_express"}, {"tolerance": 1e-4}], ids=str
)
def test_every_tap_and_every_linear_weight_equals_a_plain_loop(settings):
    module = network()
    before = state(module)
    written = fire_(module, **settings)
    assert written == ["0.weight", "2.weight", "4.weight", "6.weight", "7.weight"]
    if "tolerance" in settings:  # a batch iterates until its worst matrix is done, a loop stops earlier
        for name in written:
            taps = module.state_dict()[name].double() / isometry_scale(before[name])
            taps = taps.flatten(2).movedim(2, 0) if taps.ndim > 2 else taps
            assert ((torch.linalg.svdvals(taps) ** 2 - 1) ** 2).mean(-1).max() <= 1.01e-4
        return
    for name in written:
        expected = by_plain_loop(before[name], **settings)
        torch.testing.assert_close(module.state_dict()[name], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", [nn.Conv1d(4, 6, 5), nn.Conv3d(4, 6, 2), nn.Conv2d(4, 6, 3, groups=2)], ids=str)
def test_other_convolutions_go_tap_by_tap(layer):
    expected = by_plain_loop(layer.weight.detach(), method="polar")
    fire_(layer, "polar")
    torch.testing.assert_close(layer.weight.detach(), expected)


def test_a_channels_last_weight_gets_the_same_values_and_keeps_its_layout():
    plain = nn.Conv2d(4, 6, 3)
    strided = nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)
    strided.load_state_dict(plain.state_dict())
    strides = strided.weight.stride()
    fire_(plain)
    fire_(strided)
    assert strided.weight.stride() == strides
    torch.testing.assert_close(strided.weight, plain.weight)


def test_batching_equal_shapes_equals_layer_by_layer():
    together, apart = network(), network()
    fire_(together)
    for name in ("0.weight", "2.weight", "4.weight", "6.weight", "7.weight"):
        assert fire_(apart, names=[name]) == [name]
    torch.testing.assert_close(state(together), state(apart))


def test_cutting_a_large_batch_changes_nothing(monkeypatch):
    whole, cut = network(), network()
    fire_(whole)
    monkeypatch.setattr(isometry, "MAX_BATCH_ELEMENTS", 64)
    fire_(cut)
    torch.testing.assert_close(state(whole), state(cut))


def test_every_member_of_stacked_layers_equals_a_layer_of_its_own():
    torch.manual_seed(0)
    stack = nn.Sequential(StackedConv2d(3, 4, 6, 2), StackedLinear(3, 6, 5))
    ones = [nn.Sequential(nn.Conv2d(4, 6, 2), nn.Linear(6, 5)) for _ in range(3)]
    for member, one in enumerate(ones):
        one.load_state_dict({name: value[member] for name, value in stack.state_dict().items()})
        fire_(one)
    fire_(stack)
    for member, one in enumerate(ones):
        for name, value in one.named_parameters():
            torch.testing.assert_close(stack.get_parameter(name)[member], value)


def test_a_dead_tap_of_a_stack_is_named_by_its_member():
    stack = nn.Sequential(StackedConv2d(3, 4, 6, 2))
    with torch.no_grad():
        stack[0].weight[2, :, :, 0, 1] = 0
    with pytest.raises(ValueError, match=r"0.weight, member 2, tap \(0, 1\)"):
        fire_(stack)


def test_names_choose_what_is_written():
    module = network()
    before = state(module)
    assert fire_(module, names=["6.weight"]) == ["6.weight"]
    assert [n for n, t in module.state_dict().items() if not torch.equal(t, before[n])] == ["6.weight"]


@pytest.mark.parametrize("name", ["0.weight", "2.weight"])
def test_a_weight_tied_to_an_embedding_is_written_only_by_name(name):
    module = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 9, bias=False))
    module[2].weight = module[0].weight
    before = module[0].weight.detach().clone()
    written = fire_(module)
    assert written == ["1.weight"]
    assert written.skipped == {"0.weight": "tied to the embedding '0'"}
    assert torch.equal(module[0].weight, before)
    expected = by_plain_loop(module[2].weight.detach())
    assert fire_(module, names=[name]) == ["0.weight"]
    torch.testing.assert_close(module[0].weight.detach(), expected)
    assert module[2].weight is module[0].weight


def test_a_tensor_that_two_layers_share_is_rewritten_once():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    module[1].weight = module[0].weight
    expected = by_plain_loop(module[0].weight.detach())
    assert fire_(module) == ["0.weight"]
    torch.testing.assert_close(module[0].weight.detach(), expected)
    assert fire_(module, names=["1.weight"]) == ["0.weight"]


def test_firing_a_polar_result_again_changes_nothing():
    module = network()
    fire_(module, "polar")
    before = state(module)
    fire_(module, "polar")
    torch.testing.assert_close(state(module), before)


def break_tap(module: nn.Sequential) -> None:
    module[2].weight[:, :, 2, 1] = 0


def break_linear(module: nn.Sequential) -> None:
    module[7].weight[1, 2] = math.nan


def drop_rank(module: nn.Sequential) -> None:
    module[6].weight[0] = module[6].weight[1]


@pytest.mark.parametrize(
    ("harm", "settings", "message"),
    [
        (break_tap, {}, r"^2\.weight, tap \(2, 1\) is zero$"),
        (break_linear, {}, r"^7\.weight is not finite$"),
        (drop_rank, {"tolerance": 1e-3}, r"^6\.weight is not within tolerance 0\.001"),
        (None, {"method": "poler"}, "did you mean 'polar'"),
        (None, {"steps": 0}, "steps must be at least 1, got 0"),
        (None, {"names": ["4.weight", "1.weight"]}, "no weight matrix named '1.weight' in Sequential"),
        (None, {"names": []}, "no weight matrix to rewrite in Sequential"),
        (None, {"split": {"4.weight": 3}}, "8 outputs cannot be split into 3 equal parts"),
        (None, {"split": {"nope": 3}}, "named 'nope'"),
    ],
)
def test_an_error_names_its_layer_and_leaves_every_bit_unchanged(harm, settings, message):
    module = network()
    if harm is not None:
        with torch.no_grad():
            harm(module)
    before = state(module)
    with pytest.raises(ValueError, match=message):
        fire_(module, **settings)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor.nan_to_num(), before[name].nan_to_num()), name


def test_a_layout_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"critic: a linear weight cannot have the shape \(2, 3, 4\)"):
        Weight("critic", torch.ones(2, 3, 4))
