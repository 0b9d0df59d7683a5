from pathlib import Path

from stable_baselines3 import DQN

DQN("MlpPolicy", "CartPole-v1").save("model.zip")
Path("my_net.py").write_text("""
import torch
from torch import nn
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), torch.randn(32, 4)
""")
