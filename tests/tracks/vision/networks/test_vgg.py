"""VGG-16 with batch normalisation."""

import torch
from torch import nn

from supple.tracks.vision.networks.vgg import VGG16


def test_for_tiny_imagenet_the_classifier_is_that_of_hare_and_tortoise() -> None:
    with torch.device("meta"):
        *_, first, second, head = VGG16((3, 64, 64), 200).layers()
    assert [tuple(layer.weight.shape) for layer in (first, second, head)] == [(1024, 2048), (1024, 1024), (200, 1024)]


def test_thirteen_convolutions_double_their_channels_up_to_eight_times() -> None:
    convolutions = [layer.weight for layer in VGG16((3, 32, 32), 10, width=2).layers()[:13]]
    assert [len(weight) for weight in convolutions] == [2, 2, 4, 4, 8, 8, 8, 16, 16, 16, 16, 16, 16]
    assert all(weight.shape[2:] == (3, 3) for weight in convolutions)


def test_every_convolution_is_normalised_before_its_units() -> None:
    kinds = [type(part) for part in VGG16((3, 32, 32), 10, width=2).encoder]
    for place in (i for i, kind in enumerate(kinds) if kind is nn.Conv2d):
        assert kinds[place + 1 : place + 3] == [nn.BatchNorm2d, nn.ReLU]
    assert kinds.count(nn.MaxPool2d) == 5
