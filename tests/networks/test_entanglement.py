"""Units that reach the outputs by other ways than the graph of the network shows are refused, by name."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from supple.interventions import learner_for, make

X = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
IMAGES = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Cosine(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.normalize(x, dim=-1), F.normalize(self.weight, dim=-1))


class Standardized(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(x, weight / weight.std((1, 2, 3), keepdim=True), self.bias)


class ChannelsLast(nn.Flatten):
    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1).flatten(1)


class Reversed(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return x.flip(-1)


class Noisy(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight + 0.1 * torch.ones_like(self.weight), self.bias)


def dense(last: nn.Module | None = None, *between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), *between, last or nn.Linear(16, 3))


def hooked(kind: str) -> nn.Sequential:
    module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    if kind == "permutes":
        module[2].register_forward_pre_hook(lambda _, x: (x[0].flip(-1),))
    elif kind == "adds":
        module[2].register_forward_hook(lambda _, x, y: y + x[0])
    else:
        module[2].register_forward_hook(lambda _, x, y: None)
    return module


def learner_of(module: nn.Module, *, x: Tensor = X):
    return learner_for(module, probe=lambda: (x,), loss=lambda: module(x).square().mean())


@pytest.mark.parametrize(
    ("module", "x"),
    [
        (dense(Cosine(16, 3)), X),
        (dense(Noisy(16, 3)), X),
        (dense(None, Reversed()), X),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), ChannelsLast(), nn.Linear(288, 4)), IMAGES),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), Standardized(8, 4, 3)), IMAGES),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), Standardized(8, 4, 3)), IMAGES),
    ],
    ids=["cosine", "noisy", "reversed", "channels last", "standardized", "standardized behind BatchNorm"],
)
def test_a_layer_that_does_not_keep_its_columns_apart_is_refused_at_the_start(module, x):
    learner = learner_of(module, x=x)
    with pytest.raises(ValueError, match=r"^redo: 'model' has no private units: '\d' has no private outgoing weights"):
        make("redo").attach(learner)


@pytest.mark.parametrize(("kind", "left"), [("permutes", {"3"}), ("adds", {"3"}), ("looks", {"1", "3"})])
def test_a_hook_that_mixes_units_takes_them_out_and_one_that_looks_does_not(kind, left):
    assert learner_of(hooked(kind)).wiring.keys() == left


def test_other_incoming_weights_may_change_their_own_units_only():
    class Centred(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight - self.weight.mean(0), self.bias)

    learner = learner_of(nn.Sequential(Centred(6, 16), nn.ReLU(), nn.Linear(16, 3)))
    assert "has no private incoming weights" in learner.unwired["1"]


def test_networks_that_cannot_be_compared_keep_their_wiring():
    class Drawing(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x + torch.rand_like(x))

    module = dense()
    module[0].weight.data[0, 0] = torch.nan
    for each in (module, Drawing(*dense()), dense(None, nn.LayerNorm(16)), dense(None, nn.BatchNorm1d(16))):
        assert "1" in learner_of(each).wiring
