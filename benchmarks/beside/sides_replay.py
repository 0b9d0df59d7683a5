"""Draws from a replay memory of 84×84×4 images: supple's, and Stable-Baselines3's, filled as far as fits.

Its size grows in proportion, and its sampling does not get faster. The floor copies a draw's frames once, in one piece
that no cache holds; small rows far apart stay far from it.
"""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch

from supple.agents.offpolicy.replay import ReplayLayout, ReplayMemory

Side = tuple[Callable[[], object], int]
IMAGES = ReplayLayout((84, 84), np.uint8, stack=4)
ENVS, CAPACITY, OF_SB3 = 8, 200_000, 20_000  # transitions: 1.4 GB, and 1.1 GB
DRAWS = 200


def supple(threads: int, size: str) -> Side:
    memory = ReplayMemory(CAPACITY, ENVS, IMAGES)
    fill(memory)
    generator, out = torch.Generator().manual_seed(0), memory.buffer(int(size))
    return lambda: [memory.sample(int(size), generator, out) for _ in range(DRAWS)], DRAWS


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


def sb3(threads: int, size: str) -> Side:
    from stable_baselines3.common.buffers import ReplayBuffer

    seen, done = gym.spaces.Box(0, 255, IMAGES.observation, np.uint8), gym.spaces.Discrete(18)
    buffer = ReplayBuffer(OF_SB3, seen, done, "cpu")
    buffer.observations[:], buffer.next_observations[:], buffer.full = 1, 1, True
    return lambda: [buffer.sample(int(size)) for _ in range(DRAWS)], DRAWS


def floor(threads: int, size: str) -> Side:
    """Copy the bytes of so many draws, each of five frames a transition."""
    source = np.ones((DRAWS, int(size), 5, 84, 84), np.uint8)
    target = np.ones_like(source)
    return lambda: np.copyto(target, source), DRAWS
