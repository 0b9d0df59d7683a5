import torch
from torch import nn


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.mlp = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.mlp(self.encoder(x))


q_network, target_network = QNetwork(), QNetwork()
q_optimizer = torch.optim.Adam(q_network.parameters())
states = torch.randn(16, 4)
