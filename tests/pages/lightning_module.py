import lightning
import torch
from torch import nn


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        return criterion(self(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


criterion, module = nn.functional.mse_loss, Module()
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 6), torch.randn(16, 2)), batch_size=8)
