"""Agents: CleanRL's, which have no `forward`, and the policies of Stable-Baselines3."""

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from tests.zoo.kinds.plain import INPUTS, ROWS, WIDTH, rows
from tests.zoo.networks import Calls, Made, network

SIZE = 36  # of pictures, the smallest for Stable-Baselines3's CNN


def layer_init(layer: nn.Module, std: float = 2**0.5) -> nn.Module:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, 0.0)
    return layer


class Continuous(nn.Module):
    """CleanRL's agent for continuous actions."""

    def __init__(self) -> None:
        super().__init__()
        self.critic, self.actor_mean = (
            nn.Sequential(
                layer_init(nn.Linear(INPUTS, WIDTH)), nn.Tanh(), layer_init(nn.Linear(WIDTH, WIDTH)), nn.Tanh(),
                layer_init(nn.Linear(WIDTH, outputs), std=std),
            )
            for outputs, std in ((1, 1.0), (2, 0.01))
        )  # fmt: skip
        self.actor_logstd = nn.Parameter(torch.zeros(1, 2))


class Atari(nn.Module):
    """CleanRL's agent for Atari: a network, an actor and a critic."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            layer_init(nn.Conv2d(2, 4, 3, stride=2)), nn.ReLU(), layer_init(nn.Conv2d(4, 4, 2)), nn.ReLU(),
            nn.Flatten(), layer_init(nn.Linear(16, WIDTH)), nn.ReLU(),
        )  # fmt: skip
        self.actor = layer_init(nn.Linear(WIDTH, 3), std=0.01)
        self.critic = layer_init(nn.Linear(WIDTH, 1), std=1)


def actor_and_critic(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    hidden = module.network(x / 255.0)
    return module.actor(hidden), module.critic(hidden)


@network("CleanRL's agent for continuous actions, without forward", fresh=True, silent=False,
         forward=lambda module, x: (module.actor_mean(x), module.critic(x)))  # fmt: skip
def cleanrl_continuous() -> Made:
    return Continuous(), rows()


@network("CleanRL's agent for Atari, by a function that calls its parts", fresh=True, forward=actor_and_critic)
def cleanrl_atari_parts() -> Made:
    return Atari(), torch.randint(256, (ROWS, 2, 7, 7)).float()


@network("a dueling Q-network")
def dueling() -> Made:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        h = self.body(x)
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(1, keepdim=True)

    value, advantage = (
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs)) for outputs in (1, 3)
    )
    body = nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU())
    return Calls(forward, body=body, value=value, advantage=advantage), rows()


# -- Stable-Baselines3 -----------------------------------------------------------------------------------------------

BOX, ACTIONS = gymnasium.spaces.Box(-1, 1, (INPUTS,), np.float32), gymnasium.spaces.Box(-1, 1, (2,))
PICTURE = gymnasium.spaces.Box(0, 255, (1, SIZE, SIZE), np.uint8)
SB3 = {"fresh": True, "silent": False}


def rate(progress: float) -> float:
    return 1e-3


@network("Stable-Baselines3's MlpPolicy of PPO", **SB3)
def sb3_mlp() -> Made:
    from stable_baselines3.common.policies import ActorCriticPolicy

    return ActorCriticPolicy(BOX, ACTIONS, rate, [WIDTH]), rows(), True


@network("Stable-Baselines3's CnnPolicy of PPO: one extractor under three names", **SB3)
def sb3_cnn() -> Made:
    from stable_baselines3.common.policies import ActorCriticCnnPolicy

    small = {"features_extractor_kwargs": {"features_dim": 8}}
    policy = ActorCriticCnnPolicy(PICTURE, gymnasium.spaces.Discrete(3), rate, **small)
    return policy, torch.randint(256, (3, 1, SIZE, SIZE), dtype=torch.uint8), True


@network("Stable-Baselines3's critic of SAC", **SB3)
def sb3_critic() -> Made:
    from stable_baselines3.sac.policies import SACPolicy

    return SACPolicy(BOX, ACTIONS, rate, [WIDTH, WIDTH]).critic, rows(), rows(2)
