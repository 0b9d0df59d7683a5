"""Convolutional networks, and the ways from convolutions to linear layers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.zoo.kinds.normalised import by_hand, pictures
from tests.zoo.kinds.plain import ALL
from tests.zoo.networks import Made, network

SOME = ("fire", "reset", "snp")


@network("Nature CNN: convolutions, Flatten, Linear", hidden=by_hand, acts=ALL)
def nature() -> Made:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(16, 6), nn.ReLU(), nn.Linear(6, 3),
    ), pictures(size=7)  # fmt: skip


@network("pooling as a mean over positions", acts=SOME)
def mean_over_positions() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.act, self.fc = nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(self.act(self.conv(x)).mean((2, 3)))

    return Net(), pictures()


@network("functional pooling and relu", acts=SOME)
def functional_pooling() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2, self.fc = nn.Conv2d(2, 4, 2), nn.Conv2d(4, 4, 2), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            return self.fc(F.relu(self.conv2(x)).flatten(1))

    return Net(), pictures()


@network("Conv2d with a concatenation (U-Net)", acts=SOME)
def skip_connections() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.mid, self.up = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 1), nn.Conv2d(8, 2, 1)
            self.act1, self.act2 = nn.ReLU(), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            a = self.act1(self.down(x))
            return self.up(torch.cat([a, self.act2(self.mid(a))], 1))

    return Net(), pictures()
