"""Recurrent networks, attention, and embeddings."""

import torch
from torch import Tensor, nn

from tests.zoo.kinds.plain import ROWS
from tests.zoo.networks import Made, network

TIME, INPUTS, WIDTH = 5, 3, 4
SOME = ("fire", "reset", "snp")


def series() -> Tensor:
    return torch.randn(ROWS, TIME, INPUTS)


class Recurrent(nn.Module):
    """A recurrent layer, and a head with hidden units on its last state."""

    def __init__(self, cell: nn.Module, width: int = WIDTH) -> None:
        super().__init__()
        self.cell, self.act = cell, nn.ReLU()
        self.fc, self.out = nn.Linear(width, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.act(self.fc(self.cell(x)[0][:, -1])))


@network("GRU", acts=SOME)
def gru() -> Made:
    return Recurrent(nn.GRU(INPUTS, WIDTH, batch_first=True)), series()


@network("LSTM", acts=SOME)
def lstm() -> Made:
    return Recurrent(nn.LSTM(INPUTS, WIDTH, batch_first=True)), series()


@network("MultiheadAttention with a class token", fresh=True, acts=SOME, coupled=True)
def attention() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.02)
            self.embed, self.norm = nn.Linear(INPUTS, WIDTH), nn.LayerNorm(WIDTH)
            self.attend = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(WIDTH, 6), nn.GELU(), nn.Linear(6, WIDTH))
            self.head = nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = torch.cat([self.token.expand(len(x), -1, -1), self.embed(x)], 1)
            h = self.norm(x)
            x = x + self.attend(h, h, h, need_weights=False)[0]
            return self.head((x + self.mlp(x))[:, 0])

    return Net(), series()


@network("nn.TransformerEncoderLayer", acts=SOME, coupled=True)
def encoder_layer() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, 3)
            self.block = nn.TransformerEncoderLayer(WIDTH, 2, 6, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.block(self.embed(x)).mean(1))

    return Net(), series()
