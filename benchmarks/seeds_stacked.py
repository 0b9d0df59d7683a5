"""How fast do five seeds train as one stack? Random-label MNIST beside plain PyTorch, which trains one seed.

    supple fetch mnist
    python benchmarks/seeds_stacked.py [--rounds 7] [--updates 400] [--no-compile]

MLP 784-100-100-10, batch 16, Adam 1e-3 (paper 002, Table E1). *Plain PyTorch* is the loop that anyone would write, for
seed 0 alone: `nn.Sequential`, images as floats in memory, `torch.optim.Adam` as it comes, and fused; it keeps no count
of hits and losses, while supple does here as in a run. Each is there with one thread and with two. First it is checked
that seed 0 has the same losses everywhere; then they take turns, `updates` gradient steps each: medians of the rounds,
with the smallest and largest. A seed-update is one gradient step of one seed, so a step of the stack is five.

The floor of a step of the stack is its arithmetic at the rate of a 1024³ product, and the bytes that Adam must move
(parameter, gradient and two moments read, all but the gradient written) at the rate of a sum of two tensors that take
up as much memory together. Beside it: the matrix products alone in their own shapes, and the parts of a step.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
import torch.nn.functional as F
import tyro
from rich.console import Console
from rich.table import Table
from sac_parts import NO_HOOKS, Rounds, matmul_rate, seconds
from torch import Tensor, nn

from supple.tracks.vision.benchmarks import BENCHMARKS
from supple.tracks.vision.data import DataSet, load
from supple.tracks.vision.feed import Feed
from supple.tracks.vision.model import Model
from supple.tracks.vision.settings import VisionSettings
from supple.tracks.vision.stream import Stream
from supple.tracks.vision.update import Update

PLAIN, FUSED, EAGER, COMPILED = "plain PyTorch", "the same, fused Adam", "supple, eager", "supple, compiled"
SEEDS = (0, 1, 2, 3, 4)
THREADS = (1, 2)
CHECKED = 200  # updates; they also warm up
AGREE = 1e-3  # of seed 0's loss, in each of them

Step = Callable[[], Tensor]  # one update → the loss of seed 0 before it


@dataclass(frozen=True)
class Args:
    rounds: int = 7  # turns of each
    updates: int = 400  # gradient steps of a turn
    compile: bool = True  # off: leave the compiled contestants out


def settings_for(seeds: tuple[int, ...]) -> VisionSettings:
    return VisionSettings(**BENCHMARKS["random-label-mnist"].settings, seeds=seeds, device="cpu", compile="off")


def plain(data: DataSet, fused: bool | None) -> Iterator[Tensor]:
    """Seed 0 alone: its losses, update by update."""
    settings = settings_for(SEEDS[:1])
    stream = Stream(settings, data)
    images = stream.train(stream.tasks[0])
    x, y = images.pixels[images.rows[0]].flatten(1).float() / 255, images.labels[0]
    sizes = (x.shape[1], 100, 100, stream.classes)
    layers = [nn.Linear(d_in, d_out) for d_in, d_out in zip(sizes, sizes[1:], strict=False)]
    network = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    start = Model(settings, data, stream.classes, "cpu").network.parameters()  # a stack of one
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), start, strict=True):
            parameter.copy_(value[0])
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, fused=fused)
    for epoch in count():
        for batch in stream.order(stream.tasks[0], epoch)[0].split(settings.batch_size):
            loss = F.cross_entropy(network(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.detach()


class Stacked:
    """All seeds, stepped as `tracks/vision/loop.py` does; times its parts."""

    def __init__(self, data: DataSet, compiled: bool) -> None:
        settings = settings_for(SEEDS)
        stream = Stream(settings, data)
        self.model = Model(settings, data, stream.classes, "cpu")
        self.feed = self.model.feed = Feed(stream, stream.tasks[0], "cpu")
        self.update = Update(self.model, NO_HOOKS, compiled)
        self.hits, self.loss = torch.zeros(2, len(SEEDS))
        self.step = 0

    def __call__(self) -> Tensor:
        images, labels = self.feed.batch()
        losses, hits = self.update(images, labels, 1.0)
        self.loss += losses.mean(1)
        self.hits += hits.sum(1)
        self.step += 1
        NO_HOOKS.passed(self.step - 1, self.step)
        return losses[0].mean()

    def parts(self, updates: int) -> dict[str, float]:
        """Median microseconds of a step's parts."""
        optimizer, marks = self.model.learner.optimizer, Rounds()
        assert optimizer is not None
        now: list[float] = []
        hooks = [
            optimizer.register_step_pre_hook(lambda *_: now.append(seconds.clock())),
            optimizer.register_step_post_hook(lambda *_: now.append(seconds.clock())),
        ]
        return {}


def products(seeds: int, batch: int, sizes: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """The matrix products of a step as (stack, n, k, m): forward, to the weights, and to the inputs but the first."""
    found = []
    for depth, (d_in, d_out) in enumerate(zip(sizes, sizes[1:], strict=False)):
        found += [(seeds, batch, d_in, d_out), (seeds, d_out, batch, d_in)]
        if depth:
            found.append((seeds, batch, d_out, d_in))
    return found
