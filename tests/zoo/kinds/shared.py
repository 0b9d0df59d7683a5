"""Networks that reach one module or one parameter by several ways, and such as compute their weights."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from tests.zoo.kinds.plain import INPUTS, ROWS, WIDTH, layers, rows
from tests.zoo.networks import Made, network


@network("one body registered in two heads", acts=("fire", "reset", "snp"))
def body_in_two_heads() -> Made:
    class Head(nn.Module):
        def __init__(self, body: nn.Module, outputs: int) -> None:
            super().__init__()
            self.body, self.out = body, nn.Linear(WIDTH, outputs)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.body(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            body = nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
            self.actor, self.critic = Head(body, 3), Head(body, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.actor(x), self.critic(x)

    return Net(), rows()


@network("one body under two names, computed once", acts=("fire", "reset", "snp", "redo"))
def body_under_two_names() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU())
            self.features = self.body
            self.head = nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x))

    return Net(), rows()


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


@network("two Linears with one weight", tied=(("fc1.weight", "fc2.weight"),), acts=("fire", "reset", "snp"))
def tied_linears() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.fc1, self.fc2, self.out = (
                nn.Linear(INPUTS, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
            )  # fmt: skip
            self.act1, self.act2, self.act3 = nn.ReLU(), nn.ReLU(), nn.ReLU()
            self.fc2.weight = self.fc1.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.act3(self.fc2(self.act2(self.fc1(self.act1(self.first(x)))))))

    return Net(), rows()


@network("autoencoder whose decoder reads the encoder's weight", acts=("reset", "snp"))
def transposed_weight() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(INPUTS, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(F.relu(self.encoder(x)), self.encoder.weight.T)

    return Net(), rows()


@network("one layer used twice in a pass", acts=("fire", "reset", "snp"))
def layer_used_twice() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = layers()
            self.acts = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.ReLU()])

        def forward(self, x: Tensor) -> Tensor:
            x = self.acts[0](self.first(x))
            return self.last(self.acts[2](self.middle(self.acts[1](self.middle(x)))))

    return Net(), rows()


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


@network("parametrizations.orthogonal", acts=("snp",))
def orthogonal() -> Made:
    return mlp_of(*map(parametrizations.orthogonal, layers()[:2])), rows()


@network("an own parametrization", acts=("snp",))
def own_parametrization() -> Made:
    class Symmetric(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight.triu() + weight.triu(1).T

    first, second, third = layers()
    parametrize.register_parametrization(second, "weight", Symmetric())
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), rows()


@network("torch.nn.utils.weight_norm, the old one", acts=("snp",))
def old_weight_norm() -> Made:
    return mlp_of(*map(torch.nn.utils.weight_norm, layers()[:2])), rows()


@network("torch.nn.utils.spectral_norm, the old one", acts=("snp",))
def old_spectral_norm() -> Made:
    return mlp_of(*map(torch.nn.utils.spectral_norm, layers()[:2])), rows()


@network("pruned by torch.nn.utils.prune", acts=("snp",))
def pruned() -> Made:
    from torch.nn.utils import prune

    first, second, third = layers()
    prune.random_unstructured(second, "weight", amount=0.3)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), rows()


@network("torch.compile(module)", acts=("fire", "reset", "snp"))
def compiled() -> Made:
    first, second, third = layers()
    return torch.compile(nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), backend="eager"), rows()


@network("module.compile()", acts=("fire", "reset", "snp"))
def compiled_in_place() -> Made:
    first, second, third = layers()
    module = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)
    module.compile(backend="eager")
    return module, rows()


@network("DataParallel", acts=("fire", "reset", "snp", "redo"))
def data_parallel() -> Made:
    first, second, third = layers()
    return nn.DataParallel(nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)), rows()


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
