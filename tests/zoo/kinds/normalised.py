"""Networks with normalisations, of every kind."""

import torch
from torch import Tensor, nn

from tests.zoo.kinds.plain import ALL, WIDTH, layers, rows
from tests.zoo.networks import Made, network

ACTS = ("fire", "reset", "snp", "redo")


def normed(*norms: nn.Module) -> nn.Module:
    first, second, third = layers()
    return nn.Sequential(first, norms[0], nn.ReLU(), second, norms[1], nn.ReLU(), third)


def pictures(channels: int = 2, size: int = 5) -> Tensor:
    return torch.randn(6, channels, size, size)


def convolutions(*norms: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), norms[0], nn.ReLU(), nn.Conv2d(4, 4, 2), norms[1], nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    )


def by_hand(module: nn.Sequential, x: Tensor) -> list[Tensor]:
    """The units of a Sequential, in evaluation mode."""
    found = []
    for part in module:
        x = part(x)
        if isinstance(part, nn.ReLU):
            found.append(x)
    return found


@network("BatchNorm1d", acts=ALL, hidden=by_hand)
def batch_norm() -> Made:
    return normed(nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH)), rows()


@network("LayerNorm", acts=ACTS, coupled=True)
def layer_norm() -> Made:
    return normed(nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)), rows()


@network("GroupNorm", acts=("fire", "reset", "snp"), coupled=True)
def group_norm() -> Made:
    return convolutions(nn.GroupNorm(2, 4), nn.GroupNorm(1, 4)), pictures()


@network("a residual network with BatchNorm", acts=("fire", "reset", "snp", "redo"))
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
