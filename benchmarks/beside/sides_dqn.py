"""DQN by supple and Stable-Baselines3: on Asterix, before it learns and after; on MinAtar; their memories."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import subjects
import torch
from floors import step_adam
from stepped import ENDLESS, SteppedAgent

from supple.agents.dqn import DQNSettings
from supple.agents.offpolicy.replay import ReplayLayout, ReplayMemory
from supple.envs import StepResult, make_env

Side = tuple[Callable[[], object], int]
STEPS = {"learning": 400, "playing": 4_000}  # of a turn
WARM_UP = 2_000  # steps before anything is timed; they fill the memory that batches come from


def supple(threads: int, what: str, precision: str = "float32") -> Side:
    run = subjects.dqn(threads, learning_starts=0 if what == "learning" else 10**9, precision=precision)
    run.live(WARM_UP)
    return lambda: run.live(STEPS[what]), STEPS[what]


def sb3(threads: int, what: str, envs: str) -> Side:
    """Set SB3 up for Atari as its documentation does: `make_atari_env`, `AtariWrapper`, 4 stacked frames."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    from supple.envs.make import import_ale

    import_ale()  # registers the games
    n = int(envs)
    model = DQN(
        "CnnPolicy", VecFrameStack(make_atari_env(subjects.ASTERIX, n, seed=0, env_kwargs={"frameskip": 1}), 4),
        batch_size=32, buffer_size=20_000, learning_starts=0 if what == "learning" else 10**9,
        train_freq=4 if n == 1 else 1, gradient_steps=max(1, n // 4), seed=0, device="cpu",
    )  # fmt: skip
    model.learn(WARM_UP)
    return lambda: model.learn(STEPS[what], reset_num_timesteps=False), STEPS[what]


# -- MinAtar ----------------------------------------------------------------------------------------------------------

BREAKOUT = "minatar:breakout"
MINATAR_TURN = 1_000  # steps
OF_MINATAR: dict[str, Any] = {  # with Adam, as Stable-Baselines3; ε is at its end
    "env": BREAKOUT, "steps": ENDLESS, "num_envs": 1, "learning_starts": 1_000, "replay_size": 100_000,
    "batch_size": 32, "replay_ratio": 1.0, "target_period": 1_000, "learning_rate": 2.5e-4, "exploration": 0.1,
    "exploration_start": 0.1, "exploration_steps": 1, "initialization": "pytorch", "device": "cpu",
}  # fmt: skip


def minatar(threads: int, compiled: str) -> Side:
    run = SteppedAgent("dqn", DQNSettings(**OF_MINATAR, threads=threads, compile=compiled))
    run.live(WARM_UP)
    return lambda: run.live(MINATAR_TURN), MINATAR_TURN


def minatar_of_sb3(threads: int) -> Side:
    """Give Stable-Baselines3 the same network, which reads planes of bytes, channels first, as they are."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Kernels(BaseFeaturesExtractor):
        def __init__(self, space: gym.Space) -> None:
            super().__init__(space, 8 * 8 * 16)
            self.layers = torch.nn.Sequential(torch.nn.Conv2d(4, 16, 3), torch.nn.ReLU(), torch.nn.Flatten())

        def forward(self, planes: torch.Tensor) -> torch.Tensor:
            return self.layers(planes)

    planes = gym.spaces.Box(0, 1, (4, 10, 10), np.uint8)
    world = gym.wrappers.TransformObservation(
        make_env(BREAKOUT), lambda shown: shown.transpose(2, 0, 1).astype(np.uint8), planes
    )
    network = {"features_extractor_class": Kernels, "net_arch": [128], "normalize_images": False}
    model = DQN(
        "CnnPolicy", world, 2.5e-4, 100_000, 1_000, 32, train_freq=1, gradient_steps=1, target_update_interval=1_000,
        exploration_initial_eps=0.1, exploration_final_eps=0.1, policy_kwargs=network, seed=0, device="cpu",
    )  # fmt: skip
    model.learn(WARM_UP)
    return lambda: model.learn(MINATAR_TURN, reset_num_timesteps=False), MINATAR_TURN


def minatar_floor(threads: int) -> Side:
    """Make the passes of each update, Adam's pass over memory, and the environment's own step."""
    torch.set_num_threads(threads)
    agent = SteppedAgent("dqn", DQNSettings(**OF_MINATAR, threads=threads, compile="off")).agent
    images = torch.rand(32, 4, 10, 10).contiguous(memory_format=torch.channels_last)
    weights, rows = list(agent.network.parameters()), torch.nn.Sequential.forward
    adam = step_adam(sum(weight.numel() for weight in weights))
    world = make_env(BREAKOUT).unwrapped
    world.reset(seed=0)

    def turn() -> None:
        for _ in range(MINATAR_TURN):
            torch.autograd.grad(agent.network.mlp(rows(agent.network.encoder, images)).sum(), weights)
            with torch.no_grad():
                agent.target.mlp(rows(agent.target.encoder, images))
            adam()
            if world.step(0)[2]:
                world.reset()

    return turn, MINATAR_TURN


# -- draws from the memory --------------------------------------------------------------------------------------------

IMAGES = ReplayLayout((84, 84), np.uint8, stack=4)
ENVS, CAPACITY, OF_SB3 = 8, 200_000, 20_000  # transitions: 1.4 GB, and 1.1 GB
DRAWS = 200


def memory(threads: int, size: str) -> Side:
    filled = ReplayMemory(CAPACITY, ENVS, IMAGES)
    fill(filled)
    generator, out = torch.Generator().manual_seed(0), filled.buffer(int(size))
    return lambda: [filled.sample(int(size), generator, out) for _ in range(DRAWS)], DRAWS


def fill(memory: ReplayMemory) -> None:
    """Write every frame, so that every page is taken. An episode ends every 500 steps, one in ten by truncation."""
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 256, (16, ENVS, *IMAGES.observation), np.uint8)
    actions, rewards = rng.integers(0, 18, ENVS), rng.normal(size=ENVS)
    memory.begin(observations[0])
    for step in range(memory.rows):
        ended = rng.random(ENVS) < 1 / 500
        truncated = ended & (rng.random(ENVS) < 0.1)
        obs = observations[step % 16]
        memory.add(actions, rewards, StepResult(obs, rewards, ended & ~truncated, truncated, obs, []))


def memory_of_sb3(threads: int, size: str) -> Side:
    """Fill a memory as far as fits. Its size grows in proportion, and its sampling does not get faster."""
    from stable_baselines3.common.buffers import ReplayBuffer

    seen, done = gym.spaces.Box(0, 255, IMAGES.observation, np.uint8), gym.spaces.Discrete(18)
    buffer = ReplayBuffer(OF_SB3, seen, done, "cpu")
    buffer.observations[:], buffer.next_observations[:], buffer.full = 1, 1, True
    return lambda: [buffer.sample(int(size)) for _ in range(DRAWS)], DRAWS


def copy(threads: int, size: str) -> Side:
    """Copy each frame of a draw once, in one piece that no cache holds; small rows far apart stay far from it."""
    source = np.ones((DRAWS, int(size), 5, 84, 84), np.uint8)
    target = np.ones_like(source)
    return lambda: np.copyto(target, source), DRAWS
