"""Networks that reach one module or one parameter by several ways, and such as compute their weights."""

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from tests.zoo.kinds.plain import INPUTS, ROWS, WIDTH, layers, mlp_of, rows
from tests.zoo.networks import Calls, Made, network


@network("embedding and head with one weight")
def tied_embedding() -> Made:
    module = Calls(
        lambda self, x: self.head(self.act(self.hidden(self.embedding(x)))), embedding=nn.Embedding(9, WIDTH),
        hidden=nn.Linear(WIDTH, WIDTH), act=nn.ReLU(), head=nn.Linear(WIDTH, 9, bias=False),
    )  # fmt: skip
    module.head.weight = module.embedding.weight
    return module, torch.randint(9, (ROWS, 5))


@network("a Siamese network: one body for two inputs")
def siamese() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
            self.head = nn.Linear(2 * WIDTH, 3)

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.head(torch.cat([self.body(a), self.body(b)], dim=1))

    return Net(), rows(), rows()


@network("parametrizations.weight_norm")
def weight_norm() -> Made:
    first, second, third = layers()
    return mlp_of(parametrizations.weight_norm(first), parametrizations.weight_norm(second), third), rows()


@network("parametrizations.spectral_norm")
def spectral_norm() -> Made:
    first, second, third = layers()
    return mlp_of(parametrizations.spectral_norm(first), parametrizations.spectral_norm(second), third), rows()


@network("torch.compile(module)")
def compiled() -> Made:
    return torch.compile(mlp_of(*layers()), backend="eager"), rows()


@network("an exponential moving average beside the module (swa_utils)")
def averaged() -> Made:
    online = mlp_of(*layers())
    average = torch.optim.swa_utils.AveragedModel(online).requires_grad_(False)
    return Calls(lambda self, x: self.online(x) - 0.1 * self.average(x), online=online, average=average), rows()
