"""Networks that reach one module or one parameter by several ways, and such as compute their weights."""

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from tests.zoo.kinds.plain import INPUTS, ROWS, WIDTH, layers, rows
from tests.zoo.networks import Made, network


@network("embedding and head with one weight", tied=(("embedding.weight", "head.weight"),), acts=("reset", "snp"))
def tied_embedding() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.hidden, self.act = nn.Embedding(9, WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU()
            self.head = nn.Linear(WIDTH, 9, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.act(self.hidden(self.embedding(tokens))))

    return Net(), torch.randint(9, (ROWS, 5))


@network("a Siamese network: one body for two inputs", acts=("fire", "reset", "snp"))
def siamese() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
            self.head = nn.Linear(2 * WIDTH, 3)

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.head(torch.cat([self.body(a), self.body(b)], dim=1))

    return Net(), rows(), rows()


def mlp_of(*wrapped: nn.Module) -> nn.Module:
    first, second = wrapped
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(WIDTH, 3))


@network("parametrizations.weight_norm", acts=("snp",))
def weight_norm() -> Made:
    return mlp_of(*map(parametrizations.weight_norm, layers()[:2])), rows()


@network("parametrizations.spectral_norm", acts=("snp",))
def spectral_norm() -> Made:
    return mlp_of(*map(parametrizations.spectral_norm, layers()[:2])), rows()


@network("torch.compile(module)", acts=("fire", "reset", "snp"))
def compiled() -> Made:
    first, second, third = layers()
    return torch.compile(nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), backend="eager"), rows()


@network("an exponential moving average beside the module (swa_utils)", acts=("fire", "reset", "snp"))
def averaged() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first, second, third = layers()
            self.online = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)
            self.average = torch.optim.swa_utils.AveragedModel(self.online)
            self.average.requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            return self.online(x) - 0.1 * self.average(x)

    return Net(), rows()
