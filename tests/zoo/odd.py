"""What the odd functions share: networks, inputs, and the table `WILL` of what is right for each."""

import torch
from torch import nn

WILL = {}  # function → refused, diagnosed, or either


def will(what):
    def mark(function):
        WILL[function.__name__] = what
        return function

    return mark


def x(n=32, d=4):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0))


def net(d=4, last=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(d, 8), nn.ReLU(), nn.Linear(8, last))


class Body(nn.Module):
    """A network with another forward."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.act, self.two = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)

    def body(self, x):
        return self.two(self.act(self.one(x)))

    def forward(self, x):
        return self.body(x)


def with_weight(value):
    module = net()
    with torch.no_grad():
        module[0].weight[0, 0] = value
    return module


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")
