"""Networks with normalisations, of every kind."""

import torch
from torch import Tensor, nn

from tests.zoo.kinds.plain import ALL, INPUTS, WIDTH, layers, rows
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


@network("BatchNorm2d", acts=ALL, hidden=by_hand)
def batch_norm_2d() -> Made:
    return convolutions(nn.BatchNorm2d(4), nn.BatchNorm2d(4)), pictures()


@network("BatchNorm without statistics, and without gains", acts=("fire", "reset", "snp"), coupled=True)
def batch_norm_bare() -> Made:
    return normed(nn.BatchNorm1d(WIDTH, track_running_stats=False), nn.BatchNorm1d(WIDTH, affine=False)), rows()


@network("a frozen BatchNorm", acts=("fire", "reset", "snp"), hidden=by_hand)
def batch_norm_frozen() -> Made:
    module = normed(nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH))
    module[1].requires_grad_(False)
    module[1].eval()
    return module, rows()


@network("LayerNorm", acts=ACTS, coupled=True)
def layer_norm() -> Made:
    return normed(nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)), rows()


@network("RMSNorm", acts=ACTS, coupled=True)
def rms_norm() -> Made:
    return normed(nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)), rows()


@network("GroupNorm", acts=("fire", "reset", "snp"), coupled=True)
def group_norm() -> Made:
    return convolutions(nn.GroupNorm(2, 4), nn.GroupNorm(1, 4)), pictures()


@network("InstanceNorm2d, with and without gains and statistics", acts=("fire", "reset", "snp"))
def instance_norm() -> Made:
    norms = nn.InstanceNorm2d(4, affine=True), nn.InstanceNorm2d(4, track_running_stats=True)
    return convolutions(*norms), pictures()


@network("LayerNorm alone", acts=("reset", "snp"), refuses=("fire", "redo"))
def layer_norm_alone() -> Made:
    return nn.LayerNorm(INPUTS), rows()


@network("normalisation after the activation", acts=("fire", "reset", "snp"), coupled=True)
def norm_after_activation() -> Made:
    first, second, third = layers()
    norms = nn.BatchNorm1d(WIDTH), nn.LayerNorm(WIDTH)
    return nn.Sequential(first, nn.ReLU(), norms[0], second, nn.ReLU(), norms[1], third), rows()


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


@network(
    "batch renormalisation by hand: buffers that every forward pass changes",
    acts=("fire", "reset", "snp"),
    steady=False,
)
def counting_buffers() -> Made:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.long))
            self.register_buffer("mean", torch.zeros(INPUTS))
            self.calls = 0
            self.history: list[float] = []
            self.fc1, self.act, self.fc2 = nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1  # whatever the mode
            self.calls += 1
            self.history.append(float(self.calls))
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            return self.fc2(self.act(self.fc1(x - self.mean)))

    return Counting(), rows()
