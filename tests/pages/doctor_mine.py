from pathlib import Path

Path("mine.py").write_text("""
from torch import nn
import torch
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    def act(self, x):
        return self.body(x)
def mine():
    return Network(), torch.randn(32, 4), Network
""")
