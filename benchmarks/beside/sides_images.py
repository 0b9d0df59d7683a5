"""PPO on images by supple and Stable-Baselines3, eight copies: MinAtar's Breakout, and images of 64 × 64 × 3.

Ten epochs of minibatches of 64, which are SB3's defaults, after rollouts of 128 steps. The convolutions are those of
Young & Tian (16 of 3 × 3, then 128 units) and of the Nature DQN. The environment of the large images costs nothing: it
shows one of 16 images that were drawn before.

The floor is the time of the passes and of Adam. A step of an environment is one forward pass when it acts, one for its
value, and ten forward and backward passes, which take three times as long: 32 forward passes. The large images take
3.7 million multiplications each, so 236 MFLOP a step; Breakout's take 0.17 million, so 11 MFLOP.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import subjects
import torch
from floors import step_adam
from stepped import SteppedAgent
from torch import Tensor, nn

ENVS, ROLLOUT, EPOCHS, BATCH = 8, 128, 10, 64
ROWS = ENVS * ROLLOUT
NAMES = {"minatar": "MinAtar/Breakout-v1", "nature": "Shown-v0"}
TURNS = {"minatar": 2, "nature": 1}  # rollouts of a turn
Side = tuple[Callable[[], object], int]


class Shown(gym.Env):
    """An environment that shows random images; the reward says little of them."""

    observation_space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gym.spaces.Discrete(6)

    def __init__(self) -> None:
        self.images = np.random.default_rng(0).integers(0, 256, (16, 64, 64, 3), np.uint8)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self.images[self.t % 16], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.t += 1
        return self.images[self.t % 16], float(action == self.t % 6), self.t % 200 == 0, False, {}


def _name(kind: str) -> str:
    """Return the name of the environment, which is registered."""
    if kind == "nature":
        gym.register(NAMES[kind], Shown)
    else:
        import_module("minatar.gym").register_envs()
    return NAMES[kind]


def _agent(kind: str, threads: int) -> SteppedAgent:
    own = {"threads": threads, "rollout_steps": ROLLOUT, "epochs": EPOCHS, "minibatch_size": BATCH, "compile": "on"}
    of_vectors = dict.fromkeys(("hidden", "share_value"))
    return subjects.ppo(_name(kind), encoder=kind, **{**of_vectors, **own})


def supple(threads: int, kind: str) -> Side:
    run, steps = _agent(kind, threads), TURNS[kind] * ROWS
    return lambda: run.live(steps), steps


def sb3(threads: int, kind: str) -> Side:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Small(BaseFeaturesExtractor):
        """The network of Young & Tian, without its last layer."""

        def __init__(self, space: gym.spaces.Box) -> None:
            super().__init__(space, 128)
            convolution = nn.Sequential(nn.Conv2d(space.shape[-1], 16, 3), nn.ReLU(), nn.Flatten())
            self.layers = nn.Sequential(convolution, nn.Linear(16 * 8 * 8, 128), nn.ReLU())

        def forward(self, images: Tensor) -> Tensor:
            features: Tensor = self.layers(images.movedim(-1, 1))
            return features

    small: dict[str, Any] = {"features_extractor_class": Small, "normalize_images": False, "net_arch": []}
    model = PPO(
        "CnnPolicy", make_vec_env(_name(kind), ENVS, seed=0), n_steps=ROLLOUT, batch_size=BATCH, n_epochs=EPOCHS,
        policy_kwargs=small if kind == "minatar" else None, seed=0, device="cpu",
    )  # fmt: skip
    steps = TURNS[kind] * ROWS
    return lambda: model.learn(steps, reset_num_timesteps=False), steps


def floor(threads: int, kind: str) -> Side:
    """Make the passes of a turn, and Adam's, and nothing else."""
    run = _agent(kind, threads)
    network, key = run.agent.network, run.agent.key
    rows = torch.randint(256, (ROWS, run.agent.spaces[key].observation), dtype=torch.uint8)
    parameters = [p for p in network.parameters() if p.requires_grad]
    adam = step_adam(sum(p.numel() for p in parameters))

    def turn() -> None:
        for _ in range(TURNS[kind]):
            with torch.no_grad():
                act = network.make_policy(key)
                for _ in range(ROLLOUT):
                    act(rows[:ENVS])
                network.values(rows, key)
            for _ in range(EPOCHS):
                for batch in rows.split(BATCH):
                    outputs, values = network(batch, key)
                    torch.autograd.grad(outputs.sum() + values.sum(), parameters)
                    adam()

    return turn, TURNS[kind] * ROWS
