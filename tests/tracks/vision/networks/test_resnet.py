"""ResNet-18 in its form for small images."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from supple.networks.activations import Units
from supple.tracks.vision.networks.resnet import BasicBlock, ResNet18


def test_it_has_eighteen_layers_along_the_blocks_and_three_shortcuts() -> None:
    names = [layer.name for layer in ResNet18((3, 32, 32), 10, width=4).layers()]
    assert len([name for name in names if "shortcut" not in name]) == 18
    assert [name for name in names if "shortcut" in name] == [f"blocks.{i}.shortcut.0" for i in (2, 4, 6)]


def test_kernels_lie_channels_last() -> None:
    for layer in ResNet18((3, 32, 32), 10, width=4).layers()[:-1]:
        assert layer.weight.is_contiguous(memory_format=torch.channels_last)


def test_sides_are_halved_between_stages_only() -> None:
    module, sides = ResNet18((3, 32, 32), 10, width=4), []
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
    torch.testing.assert_close(block(x), (inner + shortcut).relu(), rtol=1e-4, atol=1e-5)
