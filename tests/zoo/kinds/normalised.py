"""Networks with normalisations, of every kind."""

import torch
from torch import Tensor, nn

from tests.zoo.kinds.plain import WIDTH, layers, rows
from tests.zoo.networks import Made, network


def normed(norm: type[nn.Module]) -> nn.Module:
    first, second, third = layers()
    return nn.Sequential(first, norm(WIDTH), nn.ReLU(), second, norm(WIDTH), nn.ReLU(), third)


def pictures(size: int = 5) -> Tensor:
    return torch.randn(6, 2, size, size)


@network("BatchNorm1d")
def batch_norm() -> Made:
    return normed(nn.BatchNorm1d), rows()


@network("LayerNorm", coupled=True)
def layer_norm() -> Made:
    return normed(nn.LayerNorm), rows()


@network("GroupNorm", coupled=True)
def group_norm() -> Made:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 4, 2), nn.GroupNorm(1, 4), nn.ReLU(),
        nn.Flatten(), nn.Linear(16, 3),
    ), pictures()  # fmt: skip


@network("a residual network with BatchNorm")
def residual() -> Made:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
            self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            out += x
            return self.relu(out)

    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), Block(), Block(), *pooled), pictures()
