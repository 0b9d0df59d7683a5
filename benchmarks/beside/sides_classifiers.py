"""Random-label classification: five seeds as one stack, and the loop that anyone would write, which trains one seed.

The images are random bytes, which cost what MNIST's do, so that nothing has to be fetched. The loop keeps no count of
hits and losses, while supple does here as in a run.
"""

from collections.abc import Callable, Iterator
from itertools import count, pairwise

import subjects
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.tracks.vision.model import Model
from supple.tracks.vision.task_data import Stream

Side = tuple[Callable[[], object], int]
UPDATES = 300


def stack(threads: int, way: str) -> Side:
    stacked = subjects.Stacked(compiled=way == "compiled")
    return lambda: stacked(UPDATES), UPDATES * len(subjects.SEEDS)


def plain(threads: int, fused: str = "") -> Side:
    step = losses(True if fused else None).__next__
    return lambda: [step() for _ in range(UPDATES)], UPDATES


def losses(fused: bool | None) -> Iterator[Tensor]:
    """Train seed 0 alone, `nn.Sequential` on images as floats in memory, and yield its losses, update by update."""
    data, settings = subjects.random_bytes(), subjects.vision_settings((0,))
    stream = Stream(settings, data)
    images = stream.train(stream.tasks[0])
    x, y = images.pixels[images.chosen[0][0]].flatten(1).float() / 255, images.chosen[1][0]
    sizes = (x.shape[1], 100, 100, stream.classes)
    layers = [nn.Linear(d_in, d_out) for d_in, d_out in pairwise(sizes)]
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
