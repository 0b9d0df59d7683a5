"""DQN on Asterix with the Nature CNN by supple and Stable-Baselines3, before it learns and after; their memories."""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import subjects
import torch

from supple.agents.offpolicy.replay import ReplayLayout, ReplayMemory

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
        memory.add(actions, rewards, ended & ~truncated, truncated, obs, obs)


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
