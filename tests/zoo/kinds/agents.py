"""Agents: CleanRL's, which have no `forward`, and the policies of Stable-Baselines3."""

from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal

from tests.zoo.kinds.plain import INPUTS, ROWS, WIDTH, rows
from tests.zoo.networks import Made, network

SOME = ("fire", "reset", "snp")
UNITS = ("redo", "cbp")
SIZE = 36  # of pictures, the smallest for Stable-Baselines3's CNN


def layer_init(layer: nn.Module, std: float = 2**0.5, bias: float = 0.0) -> nn.Module:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Continuous(nn.Module):
    """CleanRL's agent for continuous actions."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(INPUTS, WIDTH)), nn.Tanh(), layer_init(nn.Linear(WIDTH, WIDTH)), nn.Tanh(),
            layer_init(nn.Linear(WIDTH, 1), std=1.0),
        )  # fmt: skip
        self.actor_mean = nn.Sequential(
            layer_init(nn.Linear(INPUTS, WIDTH)), nn.Tanh(), layer_init(nn.Linear(WIDTH, WIDTH)), nn.Tanh(),
            layer_init(nn.Linear(WIDTH, 2), std=0.01),
        )  # fmt: skip
        self.actor_logstd = nn.Parameter(torch.zeros(1, 2))

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, ...]:
        mean = self.actor_mean(x)
        probs = Normal(mean, self.actor_logstd.expand_as(mean).exp())
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


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

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, ...]:
        hidden = self.network(x / 255.0)
        probs = Categorical(logits=self.actor(hidden))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)


def both_parts(module: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(module, Continuous):
        return module.actor_mean(x), module.critic(x)
    hidden = module.network(x / 255.0)
    return module.actor(hidden), module.critic(hidden)


PARTS = {"fresh": True, "acts": SOME + UNITS}


@network("CleanRL's agent for continuous actions, without forward", forward=both_parts, silent=False, **PARTS)
def cleanrl_continuous() -> Made:
    return Continuous(), rows()


@network("CleanRL's agent for Atari, by a function that calls its parts", forward=both_parts, **PARTS)
def cleanrl_atari_parts() -> Made:
    return Atari(), torch.randint(256, (ROWS, 2, 7, 7)).float()


@network("a dueling Q-network", acts=(*SOME, "redo"))
def dueling() -> Made:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU())
            self.value = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
            self.advantage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

        def forward(self, x: Tensor) -> Tensor:
            h = self.body(x)
            advantage = self.advantage(h)
            return self.value(h) + advantage - advantage.mean(1, keepdim=True)

    return Net(), rows()


# -- Stable-Baselines3 -----------------------------------------------------------------------------------------------

BOX = gymnasium.spaces.Box(-1, 1, (INPUTS,), np.float32)
PICTURE = gymnasium.spaces.Box(0, 255, (1, SIZE, SIZE), np.uint8)
SMALL = {"features_extractor_kwargs": {"features_dim": 8}}
SB3 = {"fresh": True, "silent": False}


def rate(progress: float) -> float:
    return 1e-3


def picture() -> Tensor:
    return torch.randint(256, (3, 1, SIZE, SIZE), dtype=torch.uint8)


@network("Stable-Baselines3's MlpPolicy of PPO", acts=SOME, **SB3)
def sb3_mlp() -> Made:
    from stable_baselines3.common.policies import ActorCriticPolicy

    return ActorCriticPolicy(BOX, gymnasium.spaces.Box(-1, 1, (2,)), rate, [WIDTH]), rows(), True


@network("Stable-Baselines3's CnnPolicy of PPO: one extractor under three names", acts=SOME, **SB3)
def sb3_cnn() -> Made:
    from stable_baselines3.common.policies import ActorCriticCnnPolicy

    return ActorCriticCnnPolicy(PICTURE, gymnasium.spaces.Discrete(3), rate, **SMALL), picture(), True


@network("Stable-Baselines3's critic of SAC", acts=SOME, **SB3)
def sb3_critic() -> Made:
    from stable_baselines3.sac.policies import SACPolicy

    return SACPolicy(BOX, gymnasium.spaces.Box(-1, 1, (2,)), rate, [WIDTH, WIDTH]).critic, rows(), rows(2)
