"""Convolutional networks, and the ways from convolutions to linear layers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.zoo.kinds.normalised import pictures
from tests.zoo.networks import Calls, Made, network


@network("Nature CNN: convolutions, Flatten, Linear")
def nature() -> Made:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(16, 6), nn.ReLU(), nn.Linear(6, 3),
    ), pictures(size=7)  # fmt: skip


@network("pooling as a mean over positions")
def mean_over_positions() -> Made:
    parts = {"conv": nn.Conv2d(2, 4, 3), "act": nn.ReLU(), "fc": nn.Linear(4, 3)}
    return Calls(lambda self, x: self.fc(self.act(self.conv(x)).mean((2, 3))), **parts), pictures()


@network("functional pooling and relu")
def functional_pooling() -> Made:
    return Calls(
        lambda self, x: self.fc(F.relu(self.conv2(F.max_pool2d(F.relu(self.conv1(x)), 2))).flatten(1)),
        conv1=nn.Conv2d(2, 4, 2), conv2=nn.Conv2d(4, 4, 2), fc=nn.Linear(4, 3),
    ), pictures()  # fmt: skip


@network("Conv2d with a concatenation (U-Net)")
def skip_connections() -> Made:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        a = self.act1(self.down(x))
        return self.up(torch.cat([a, self.act2(self.mid(a))], 1))

    return Calls(
        forward, down=nn.Conv2d(2, 4, 3, padding=1), mid=nn.Conv2d(4, 4, 1), up=nn.Conv2d(8, 2, 1),
        act1=nn.ReLU(), act2=nn.ReLU(),
    ), pictures()  # fmt: skip
