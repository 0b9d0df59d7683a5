import torch
from torch import nn

from supple.interventions import learner_for

model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.randn(32, 4)
learner = learner_for(
    model, torch.optim.Adam(model.parameters()), probe=lambda: (x,), loss=lambda: model(x).square().mean()
)
