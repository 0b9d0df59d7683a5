"""Convolutional networks, and the ways from convolutions to linear layers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.zoo.kinds.normalised import by_hand, pictures
from tests.zoo.kinds.plain import ALL, ROWS, UNITS
from tests.zoo.networks import Made, network

SOME = ("fire", "reset", "snp")


@network("Nature CNN: convolutions, Flatten, Linear", hidden=by_hand, acts=ALL)
def nature() -> Made:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 2), nn.ReLU(), nn.Flatten(),
        nn.Linear(16, 6), nn.ReLU(), nn.Linear(6, 3),
    ), pictures(size=7)  # fmt: skip


@network("Conv1d, ReLU, Linear on the last axis", acts=SOME, refuses=UNITS)
def last_axis() -> Made:
    return nn.Sequential(nn.Conv1d(2, 4, 1), nn.ReLU(), nn.Linear(8, 3)), torch.randn(ROWS, 2, 8)


@network("Conv2d, ReLU, Linear on the last axis", acts=SOME, refuses=UNITS)
def last_axis_2d() -> Made:
    return nn.Sequential(nn.Conv2d(2, 4, 1), nn.ReLU(), nn.Linear(4, 3)), pictures(size=4)


class Viewed(nn.Module):
    """A convolution, and a Linear that reads what a function makes of it."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.conv, self.act, self.fc = nn.Conv2d(2, 4, 2), nn.ReLU(), nn.Linear(inputs, 6)
        self.act2, self.out = nn.ReLU(), nn.Linear(6, 3)

    def arrange(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.act2(self.fc(self.arrange(self.act(self.conv(x))))))


@network("a view that mixes channels and positions", acts=SOME)
def wrong_view() -> Made:
    class Net(Viewed):
        def arrange(self, x: Tensor) -> Tensor:
            return x.permute(0, 2, 3, 1).contiguous().view(x.shape[0], -1)

    return Net(16), pictures(size=3)


@network("a view of rows by columns, not by channels", acts=SOME)
def view_of_columns() -> Made:
    class Net(Viewed):
        def arrange(self, x: Tensor) -> Tensor:
            return x.view(x.shape[0], 2, 8)

    return Net(8), pictures(size=3)


@network("view(-1, K)", acts=ALL)
def right_view() -> Made:
    class Net(Viewed):
        def arrange(self, x: Tensor) -> Tensor:
            return x.view(-1, 16)

    return Net(16), pictures(size=3)


@network("x.view(x.size(0), -1), x.flatten(1)", acts=ALL)
def right_flatten() -> Made:
    class Net(Viewed):
        def arrange(self, x: Tensor) -> Tensor:
            return torch.flatten(x.view(x.size(0), -1).unflatten(1, (4, 4)), 1)

    return Net(16), pictures(size=3)


@network("view(-1, K) with the batch mixed in", acts=SOME)
def view_of_the_batch() -> Made:
    class Net(Viewed):
        def arrange(self, x: Tensor) -> Tensor:
            return x.view(-1, 8)

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).view(x.shape[0], -1)

    return Net(8), pictures(size=3)


@network("transpose before the Linear", acts=SOME)
def channels_last_linear() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.act, self.fc = nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(self.act(self.conv(x)).transpose(1, 2))

    return Net(), torch.randn(ROWS, 2, 8)


@network("adaptive pooling", hidden=by_hand, acts=ALL)
def adaptive_pooling() -> Made:
    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    return nn.Sequential(nn.Conv2d(2, 4, 2), nn.ReLU(), nn.Conv2d(4, 4, 2), nn.ReLU(), *pooled), pictures()


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


@network("depthwise and grouped convolutions", acts=SOME)
def grouped() -> Made:
    return nn.Sequential(
        nn.Conv2d(2, 4, 2), nn.ReLU(), nn.Conv2d(4, 4, 2, groups=4), nn.ReLU(), nn.Conv2d(4, 4, 2, groups=2),
        nn.ReLU(), nn.Flatten(), nn.Linear(16, 3),
    ), pictures()  # fmt: skip


@network("dilated convolution, with strides", hidden=by_hand, acts=ALL)
def dilated() -> Made:
    return nn.Sequential(
        nn.Conv2d(2, 4, 2, dilation=2, padding="same"), nn.ReLU(), nn.Conv2d(4, 4, (1, 3), stride=(2, 1)), nn.ReLU(),
        nn.Flatten(), nn.Linear(36, 3),
    ), pictures()  # fmt: skip


@network("an autoencoder with ConvTranspose2d", acts=("reset", "snp"))
def transposed() -> Made:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 1), nn.ReLU(), nn.ConvTranspose2d(4, 2, 3)
    ), pictures()  # fmt: skip


@network("Conv3d", hidden=by_hand, acts=ALL)
def volumes() -> Made:
    return nn.Sequential(
        nn.Conv3d(1, 4, 2), nn.ReLU(), nn.Conv3d(4, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3)
    ), torch.randn(ROWS, 1, 3, 3, 3)  # fmt: skip


@network("Conv1d on sequences, Flatten", hidden=by_hand, acts=ALL)
def signals() -> Made:
    return nn.Sequential(
        nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Conv1d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    ), torch.randn(ROWS, 2, 8)  # fmt: skip


@network("images in channels_last", hidden=by_hand, acts=ALL)
def channels_last() -> Made:
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))
    return module.to(memory_format=torch.channels_last), pictures().to(memory_format=torch.channels_last)


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
