"""Supervised training: stacked classifiers, a GPT, and a pass through an adapter, each beside its peer.

The classifiers' images are random bytes, which cost what MNIST's do, so that nothing has to be fetched.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

Side = tuple[Callable[[], object], int]
UPDATES, PASSES = 300, 20
TOKENS, WIDTH, TASKS = 512, 2048, 10  # of MoRAM's race


def stack(threads: int) -> Side:
    from seeds_stacked import SEEDS, Stacked, random_bytes

    stacked = Stacked(random_bytes(), compiled=True)
    return lambda: [stacked() for _ in range(UPDATES)], UPDATES * len(SEEDS)


def plain(threads: int, fused: str = "") -> Side:
    from seeds_stacked import plain as made
    from seeds_stacked import random_bytes

    step = made(random_bytes(), True if fused else None).__next__
    return lambda: [step() for _ in range(UPDATES)], UPDATES


def gpt(threads: int) -> Side:
    from gpt_speed import Args, ours

    o, folder = Args(threads=threads), _tokens()
    update, _ = ours(o, Path(folder.name))
    return lambda: ([update() for _ in range(o.updates)], folder), o.updates * o.micro_batch * o.block


def nanogpt(threads: int) -> Side:
    from gpt_speed import Args, peer

    o, folder = Args(threads=threads), _tokens()
    update = peer(o, np.memmap(Path(folder.name) / "train.bin", np.uint16, "r"))
    return lambda: ([update() for _ in range(o.updates)], folder), o.updates * o.micro_batch * o.block


def _tokens() -> TemporaryDirectory[str]:
    """Return a folder of random tokens; it is removed with the object."""
    from supple.tracks.language.corpora import write_tokens

    folder = TemporaryDirectory()
    tokens = np.random.default_rng(0).integers(0, 1024, 1_000_000).astype(np.uint16)
    for part in ("train", "validation"):
        write_tokens(Path(folder.name) / f"{part}.bin", [tokens], "random", "bytes", "random", 1024)
    return folder


def moram(threads: int) -> Side:
    from moram_speed import forward
    from moram_speed import moram as made

    run = forward(made(torch.nn.Linear(WIDTH, WIDTH), TASKS), torch.randn(TOKENS, WIDTH))
    return lambda: [run() for _ in range(PASSES)], PASSES


def lora(threads: int) -> Side:
    from moram_speed import forward, peft_lora

    run = forward(peft_lora(torch.nn.Linear(WIDTH, WIDTH)), torch.randn(TOKENS, WIDTH))
    return lambda: [run() for _ in range(PASSES)], PASSES
