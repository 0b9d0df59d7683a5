import torch
from torch import nn


class Batch:
    observations = torch.randn(16, 4)


batch = Batch()
agent = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(agent.parameters())
total = 10


def loss_of(batch):
    return agent(batch.observations).square().mean()


def print_event(**event):
    assert (event["hook"], event["step"]) == ("fire@0.5", 5)
    seen.append(event)


seen = []
