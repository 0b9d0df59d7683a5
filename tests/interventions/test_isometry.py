import math

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import StackedConv2d, StackedLinear, isometry, snapshot
from supple.interventions.isometry import fire_
from supple.interventions.orthogonalize import orthogonalize
from supple.networks import isometry_scale
from supple.networks.matrices import Weight
from tests.interventions.common import changed, refused

WEIGHTS = ["0.weight", "2.weight", "4.weight", "6.weight", "7.weight"]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, (3, 2)), nn.Flatten(),
        nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 5),
    )  # fmt: skip


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


@pytest.mark.parametrize("settings", [{}, {"method": "polar"}, {"method": "polar_express"}], ids=str)
def test_every_tap_and_every_linear_weight_equals_a_plain_loop(settings):
    module = network()
    before = snapshot(module)
    assert fire_(module, **settings) == WEIGHTS
    assert changed(module, before) == set(WEIGHTS)
    for name in WEIGHTS:
        expected = by_plain_loop(before[name], **settings)
        torch.testing.assert_close(module.state_dict()[name], expected, rtol=1e-4, atol=1e-5)


def test_with_a_tolerance_a_batch_iterates_until_its_worst_matrix_is_done():
    module = network()
    for name in fire_(module, tolerance=1e-4):
        weight = module.state_dict()[name]
        taps = weight.double() / isometry_scale(weight)
        taps = taps.flatten(2).movedim(2, 0) if taps.ndim > 2 else taps
        assert ((torch.linalg.svdvals(taps) ** 2 - 1) ** 2).mean(-1).max() <= 1.01e-4


@pytest.mark.parametrize(
    "layer",
    [
        *(nn.Conv1d(4, 6, 5), nn.Conv3d(4, 6, 2), nn.Conv2d(4, 6, 3, groups=2)),
        nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last),
    ],
    ids=str,
)
def test_other_convolutions_go_tap_by_tap_and_keep_their_layout(layer):
    expected, strides = by_plain_loop(layer.weight.detach(), method="polar"), layer.weight.stride()
    fire_(layer, "polar")
    assert layer.weight.stride() == strides
    torch.testing.assert_close(layer.weight.detach(), expected)


def test_layer_by_layer_or_in_small_batches_the_values_are_the_same(monkeypatch):
    together, apart, cut = network(), network(), network()
    fire_(together)
    for name in WEIGHTS:
        before = snapshot(apart)
        assert fire_(apart, names=[name]) == [name]
        assert changed(apart, before) == {name}
    monkeypatch.setattr(isometry, "MAX_BATCH_ELEMENTS", 64)
    fire_(cut)
    for other in (apart, cut):
        torch.testing.assert_close(snapshot(other), snapshot(together))


def test_every_member_of_stacked_layers_equals_a_layer_of_its_own():
    torch.manual_seed(0)
    stack = nn.Sequential(StackedConv2d(3, 4, 6, 2), StackedLinear(3, 6, 5))
    before = snapshot(stack)
    fire_(stack)
    for member in range(3):
        one = nn.Sequential(nn.Conv2d(4, 6, 2), nn.Linear(6, 5))
        one.load_state_dict({name: value[member] for name, value in before.items()})
        fire_(one)
        torch.testing.assert_close(snapshot(one), {name: value[member] for name, value in snapshot(stack).items()})
    with torch.no_grad():
        stack[0].weight[2, :, :, 0, 1] = 0
    with refused("0.weight, matrix [0-9]+ of [0-9]+, is"):
        fire_(stack)


@pytest.mark.parametrize("name", ["0.weight", "2.weight"])
def test_a_weight_tied_to_an_embedding_is_written_only_by_name(name):
    module = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 9, bias=False))
    module[2].weight = module[0].weight
    before = module[0].weight.detach().clone()
    written = fire_(module)
    assert written == ["1.weight"]
    assert written.skipped == {"0.weight": "tied to the embedding '0'"}
    assert torch.equal(module[0].weight, before)
    assert fire_(module, names=[name]) == ["0.weight"]
    torch.testing.assert_close(module[0].weight.detach(), by_plain_loop(before))
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
    before = snapshot(module)
    fire_(module, "polar")
    torch.testing.assert_close(snapshot(module), before)


@pytest.mark.parametrize(
    ("layer", "harmed", "settings", "message"),
    [
        (2, (..., 2, 1), {}, r"^2\.weight, matrix \d+ of \d+, is zero$"),
        (6, 0, {"tolerance": 1e-3}, r"^6\.weight is not within tolerance 0\.001"),
        (0, (), {"method": "poler"}, "did you mean 'polar'"),
        (0, (), {"names": ["4.weight", "1.weight"]}, "no weight matrix named '1.weight' in Sequential"),
        (0, (), {"names": []}, "no weight matrix to rewrite in Sequential"),
        (0, (), {"split": {"4.weight": 3}}, "8 outputs cannot be split into 3 equal parts"),
    ],
)
def test_an_error_names_its_layer_and_leaves_every_bit_unchanged(layer, harmed, settings, message):
    module = network()
    with torch.no_grad():
        module[layer].weight[harmed] = 0
    before = snapshot(module)
    with refused(message):
        fire_(module, **settings)
    assert not changed(module, before)


def test_a_layout_that_does_not_fit_is_refused():
    with refused(r"critic: a linear weight cannot have the shape \(2, 3, 4\)"):
        Weight("critic", torch.ones(2, 3, 4))
