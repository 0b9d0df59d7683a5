"""Recurrent networks, attention, and embeddings."""

import torch
from torch import Tensor, nn

from tests.zoo.kinds.plain import ROWS
from tests.zoo.networks import Calls, Made, network

TIME, INPUTS, WIDTH = 5, 3, 4


def series() -> Tensor:
    return torch.randn(ROWS, TIME, INPUTS)


def recurrent(cell: nn.Module) -> nn.Module:
    """A recurrent layer, and a head with hidden units on its last state."""
    return Calls(
        lambda self, x: self.out(self.act(self.fc(self.cell(x)[0][:, -1]))), cell=cell, act=nn.ReLU(),
        fc=nn.Linear(WIDTH, 6), out=nn.Linear(6, 3),
    )  # fmt: skip


@network("GRU")
def gru() -> Made:
    return recurrent(nn.GRU(INPUTS, WIDTH, batch_first=True)), series()


@network("LSTM")
def lstm() -> Made:
    return recurrent(nn.LSTM(INPUTS, WIDTH, batch_first=True)), series()


@network("MultiheadAttention with a class token", fresh=True, coupled=True, silent=False)
def attention() -> Made:
    class Net(Calls):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.cat([self.token.expand(len(x), -1, -1), self.embed(x)], 1)
            h = self.norm(x)
            x = x + self.attend(h, h, h, need_weights=False)[0]
            return self.head((x + self.mlp(x))[:, 0])

    module = Net(
        None, embed=nn.Linear(INPUTS, WIDTH), norm=nn.LayerNorm(WIDTH),
        attend=nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        mlp=nn.Sequential(nn.Linear(WIDTH, 6), nn.GELU(), nn.Linear(6, WIDTH)), head=nn.Linear(WIDTH, 3),
    )  # fmt: skip
    module.token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.02)
    return module, series()


@network("nn.TransformerEncoderLayer", coupled=True)
def encoder_layer() -> Made:
    block = nn.TransformerEncoderLayer(WIDTH, 2, 6, batch_first=True)
    parts = {"embed": nn.Linear(INPUTS, WIDTH), "head": nn.Linear(WIDTH, 3), "block": block}
    return Calls(lambda self, x: self.head(self.block(self.embed(x)).mean(1)), **parts), series()
