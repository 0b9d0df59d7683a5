"""Independent seeds for every purpose, derived from the seed of a run."""

import hashlib
import json

import torch


def derive(seed: int, *path: int | str) -> int:
    """Return a 63-bit seed for a purpose, such as `derive(seed, "envs", 3)`. It is the same on every machine.

    It is a hash. NumPy's SeedSequence is not used because it gives ("envs",) and ("envs", 0) the same seed.
    """
    digest = hashlib.sha256(json.dumps([seed, *path]).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def generator(seed: int, *path: int | str) -> torch.Generator:
    """Return a CPU generator seeded for a purpose."""
    return torch.Generator().manual_seed(derive(seed, *path))
