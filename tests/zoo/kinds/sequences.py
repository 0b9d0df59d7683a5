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


@network("LSTM, two layers, both directions, dropout, with projections", acts=SOME)
def lstm_projected() -> Made:
    cell = nn.LSTM(INPUTS, WIDTH, 2, batch_first=True, bidirectional=True, proj_size=2, dropout=0.1)
    return Recurrent(cell, 4), series()


@network("RNN with ReLUs", acts=SOME)
def rnn() -> Made:
    return Recurrent(nn.RNN(INPUTS, WIDTH, nonlinearity="relu", batch_first=True)), series()


@network("GRUCell and LSTMCell in a loop", acts=SOME)
def cells() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.lstm, self.out = nn.GRUCell(INPUTS, WIDTH), nn.LSTMCell(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            h, state = x.new_zeros(len(x), WIDTH), None
            for t in range(x.shape[1]):
                h = self.gru(x[:, t], h)
                state = self.lstm(h, state)
            return self.out(state[0])

    return Net(), series()


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


@network("MultiheadAttention with separate widths of keys and values", acts=SOME)
def attention_apart() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend = nn.MultiheadAttention(WIDTH, 2, kdim=INPUTS, vdim=INPUTS, add_bias_kv=True, batch_first=True)
            self.query, self.head = nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.attend(self.query(x), x, x)[0].mean(1))

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


@network("nn.Transformer", fresh=True, acts=("reset", "snp"), coupled=True)
def whole_transformer() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, 3)
            self.body = nn.Transformer(WIDTH, 2, 1, 1, 6, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            x = self.embed(x)
            return self.head(self.body(x, x[:, :2]).mean(1))

    return Net(), series()


@network("EmbeddingBag", acts=SOME)
def embedding_bag() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.EmbeddingBag(9, WIDTH)
            self.fc, self.act, self.out = nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, 3)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.out(self.act(self.fc(self.words(tokens))))

    return Net(), torch.randint(9, (ROWS, TIME))


@network("Embedding with padding, max_norm, and sparse gradients", acts=("reset",))
def embedding_padded() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(9, WIDTH, padding_idx=0, max_norm=1.0)
            self.fc, self.act, self.out = nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, 3)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.out(self.act(self.fc(self.words(tokens).mean(1))))

    return Net(), torch.randint(9, (ROWS, TIME))


@network("Bilinear and GLU", acts=("reset", "snp"))
def gated() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.glu = nn.Linear(INPUTS, 2 * WIDTH), nn.GLU()
            self.pair, self.out = nn.Bilinear(WIDTH, INPUTS, 4), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = x.mean(1)
            return self.out(self.pair(self.glu(self.fc(x)), x))

    return Net(), series()
