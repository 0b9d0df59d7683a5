"""Independent seeds for every purpose, derived from the one seed of a run."""

import zlib

import numpy as np
import torch


def derive(seed: int, *path: int | str) -> int:
    """A 63-bit seed for a purpose, such as `derive(seed, "envs", 3)`: the same on every machine."""
    words = [zlib.crc32(word.encode()) if isinstance(word, str) else word for word in path]
    state = np.random.SeedSequence([seed, *words]).generate_state(2, np.uint32)
    return int(state[0]) << 31 | int(state[1]) >> 1


def generator(seed: int, *path: int | str) -> torch.Generator:
    """A CPU generator seeded for a purpose."""
    return torch.Generator().manual_seed(derive(seed, *path))
