"""How fast do five seeds train as one stack? Random-label MNIST beside plain PyTorch, which trains one seed.

    supple fetch mnist
    python benchmarks/seeds_stacked.py [--rounds 7] [--updates 400] [--no-compile] [--no-flush]

MLP 784-100-100-10, batch 16, Adam 1e-3 (Lillo & Cheney 2025, arXiv 2509.22562, Table
E1). *Plain PyTorch* is the loop that anyone would write, for seed 0 alone: `nn.Sequential`, images as floats in memory,
`torch.optim.Adam` as it comes, and fused; it keeps no count of hits and losses, while supple does here as in a run.
Each is there with one thread and with two. First it is checked that seed 0 has the same losses everywhere; then they
take turns, `updates` gradient steps each: medians of the rounds, with the smallest and largest. A seed-update is one
gradient step of one seed, so a step of the stack is five. Denormal numbers are taken for zero by all, as our training
does; `--no-flush` is the other reading.

The floor of a step of the stack is its arithmetic at the rate of a 1024³ product, and the bytes that Adam must move
(parameter, gradient and two slots read, all but the gradient written) at the rate of a += b on two tensors
that take up as much memory together. Beside it: the matrix products alone in their own shapes, and the parts of a step.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
import tyro
from rich.console import Console
from rich.table import Table
from stepped import NO_HOOKS, Stepped
from timing import Options, Rounds, begin, matmul_rate, seconds
from torch import Tensor, nn

from supple.engine.kinds import presets_of
from supple.tracks.vision import update
from supple.tracks.vision.data import DataSet, load
from supple.tracks.vision.model import Model
from supple.tracks.vision.settings import VisionSettings
from supple.tracks.vision.stream import Stream
from supple.tracks.vision.work import VisionWork

PLAIN, FUSED, EAGER, COMPILED = "plain PyTorch", "the same, fused Adam", "supple, eager", "supple, compiled"
SEEDS = (0, 1, 2, 3, 4)
THREADS = (1, 2)
CHECKED = 200  # updates; they also warm up
AGREE = 1e-3  # of seed 0's loss, in each of them

Step = Callable[[], Tensor]  # one update → the loss of seed 0 before it


@dataclass(frozen=True)
class Args(Options):
    rounds: int = 7  # turns of each
    updates: int = 400  # gradient steps of a turn
    compile: bool = True  # off: leave the compiled contestants out


def make_settings(seeds: tuple[int, ...], **own: Any) -> VisionSettings:
    preset = presets_of("vision")["random-label-mnist"].settings
    return VisionSettings(**{**preset, **own}, seeds=seeds, device="cpu", compile="off")


def random_bytes() -> DataSet:
    """Return images of random bytes, which cost what MNIST's do."""
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(256, (2000, 1, 28, 28), generator=draws, dtype=torch.uint8)
    labels = torch.randint(10, (2000,), generator=draws)
    return DataSet("random bytes", "random bytes", images, labels, images[:10], labels[:10], 10)


def plain(data: DataSet, fused: bool | None) -> Iterator[Tensor]:
    """Train seed 0 alone, and yield its losses, update by update."""
    settings = make_settings(SEEDS[:1])
    stream = Stream(settings, data)
    images = stream.train(stream.tasks[0])
    x, y = images.pixels[images.rows[0]].flatten(1).float() / 255, images.labels[0]
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


class Stacked(Stepped):
    """All seeds, stepped as in training."""

    def __init__(self, data: DataSet, compiled: bool, seeds: tuple[int, ...] = SEEDS, **own: Any) -> None:
        settings = make_settings(seeds, **own)
        stream = Stream(settings, data)
        self.work = VisionWork(settings, stream, Model(settings, data, stream.classes, "cpu"))
        super().__init__(self.work)
        self.update, self.work.update = update.Update(self.work.model, NO_HOOKS, compiled), self._update
        self.loss = torch.zeros(len(seeds))

    def _update(self, images: Tensor, labels: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        self.fed = time.perf_counter()
        self.loss, hits = self.update(images, labels, rate)
        return self.loss, hits

    def __call__(self) -> Tensor:
        self.advance()
        return self.loss[0]

    def parts(self, updates: int) -> dict[str, float]:
        """Return the median microseconds of each part of a step."""
        clock, marks, inner = time.perf_counter, [0.0, 0.0], update.step

        def timed(optimizer: torch.optim.Optimizer) -> None:
            marks[0] = clock()
            inner(optimizer)
            marks[1] = clock()

        update.step = timed
        spent: dict[str, list[float]] = {name: [] for name in ("batch", "loss and gradients", "Adam", "bookkeeping")}
        for _ in range(updates):
            started = clock()
            self.advance()
            ends = (started, self.fed, *marks, clock())
            for times, (start, end) in zip(spent.values(), pairwise(ends), strict=True):
                times.append(end - start)
        update.step = inner
        return {name: 1e6 * median(times) for name, times in spent.items()}


class Floor:
    """What a step of the stack cannot do without, in microseconds by name; measured in turn with the rest."""

    def __init__(self, model: Model) -> None:
        seeds, batch = model.members, model.settings.batch_size
        shapes: list[tuple[int, int, int, int]] = []  # stack × (n × k by k × m): forward, to weights, to inputs
        for layer in model.learner.layers:
            d_out, d_in = layer.weight.shape[1:]
            shapes += [(seeds, batch, d_in, d_out), (seeds, d_out, batch, d_in)]
            if layer.depth:
                shapes.append((seeds, batch, d_out, d_in))
        self.flop = sum(2 * stack * n * k * m for stack, n, k, m in shapes)
        self.operands = [
            (torch.randn(stack, n, k), torch.randn(stack, k, m), torch.empty(stack, n, m)) for stack, n, k, m in shapes
        ]
        parameters = sum(p.numel() for p in model.network.parameters())
        self.bytes = 4 * parameters * 7  # float32; four read, three written
        self.pair = torch.zeros(2, 2 * parameters)  # as much memory as the four take up
        self.rate, self.bandwidth = Rounds(0), Rounds()  # GFLOP/s, GB/s
        self.products = Rounds(0)

    def measure(self) -> None:
        self.rate.values.append(matmul_rate(repeats=3))
        a, b = self.pair
        took = median(seconds(lambda: a.add_(b)) for _ in range(50))
        self.bandwidth.values.append(4 * 3 * a.numel() / took / 1e9)
        self.products.values.append(1e6 * median(seconds(self._products) for _ in range(50)))

    def _products(self) -> None:
        for a, b, out in self.operands:
            torch.bmm(a, b, out=out)

    @property
    def arithmetic(self) -> float:
        return self.flop / self.rate.median / 1e3

    @property
    def traffic(self) -> float:
        return self.bytes / self.bandwidth.median / 1e3


def check(lines: dict[tuple[str, int], Step]) -> None:
    """Check that seed 0 has the same losses everywhere in the first updates."""
    reference: Tensor | None = None
    for (name, threads), step in lines.items():
        torch.set_num_threads(threads)
        losses = torch.stack([step() for _ in range(CHECKED)])
        reference = losses if reference is None else reference
        worst = float((losses - reference).abs().max())
        if worst > AGREE:
            raise SystemExit(f"{name}, {threads} threads: a loss of seed 0 is off by {worst:.1e} in {CHECKED} updates")
    print(f"seed 0's losses agree to {AGREE:.0e} in {CHECKED} updates, all {len(lines)} contestants")


def main(args: Args) -> bool:
    begin(max(THREADS), args.flush)
    data = load("mnist", None)
    lines: dict[tuple[str, int], Step] = {}
    stacks: dict[tuple[str, int], Stacked] = {}
    for threads in THREADS:
        lines[PLAIN, threads] = plain(data, None).__next__
        lines[FUSED, threads] = plain(data, True).__next__
        for name in (EAGER, COMPILED)[: 1 + args.compile]:
            lines[name, threads] = stacks[name, threads] = Stacked(data, name == COMPILED)
    check(lines)
    floors = {threads: Floor(stacks[EAGER, threads].work.model) for threads in THREADS}
    rates = {line: Rounds(0) for line in lines}
    for _ in range(args.rounds):
        for line, step in lines.items():
            torch.set_num_threads(line[1])
            took = seconds(lambda step=step: [step() for _ in range(args.updates)])  # type: ignore[misc]
            rates[line].values.append(args.updates * (len(SEEDS) if line in stacks else 1) / took)
        for threads, floor in floors.items():
            torch.set_num_threads(threads)
            floor.measure()
    console = Console(width=120)
    eager = max(rates[PLAIN, threads].median for threads in THREADS)
    total = stacks[EAGER, 1].work.tasks[-1].end
    table = Table(title=f"Random-label MNIST, {args.rounds} rounds of {args.updates} steps in turn: median (min–max)")
    for column in ("", "threads", "seed-updates/s", "× plain", f"minutes for {len(SEEDS)} seeds, 50 tasks"):
        table.add_column(column, justify="right" if column else "left")
    for (name, threads), rate in rates.items():
        minutes = total * len(SEEDS) / rate.median / 60
        table.add_row(name, str(threads), str(rate), f"{rate.median / eager:.2f}", f"{minutes:.0f}")
    console.print(table)
    console.print(print_parts(stacks, floors, rates, args.updates))
    best = max(rates[line].median for line in stacks) / eager
    moved = ", ".join(f"{floor.bandwidth} GB/s on {threads}" for threads, floor in floors.items())
    done = ", ".join(f"{floor.rate} GFLOP/s on {threads}" for threads, floor in floors.items())
    console.print(
        f"Minutes are extrapolated to {total:,} steps; plain PyTorch takes one seed after the other.\n"
        f"Memory, a += b: {moved} threads. A 1024³ product: {done}."
    )
    console.print(f"at least 4 × plain PyTorch at its best: {'yes' if best >= 4 else 'NO'} ({best:.2f})")
    return best >= 4


def print_parts(
    stacks: dict[tuple[str, int], Stacked],
    floors: dict[int, Floor],
    rates: dict[tuple[str, int], Rounds],
    updates: int,
) -> Table:
    """Print the microseconds of a step of the stack, beside its floor."""
    table = Table(title=f"Microseconds of a step of {len(SEEDS)} seeds")
    rows: dict[str, list[str]] = {}
    table.add_column("")
    for (name, threads), stack in stacks.items():
        table.add_column(f"{name}, {threads}", justify="right")
        torch.set_num_threads(threads)
        floor, step = floors[threads], 1e6 * len(SEEDS) / rates[name, threads].median
        least = floor.arithmetic + floor.traffic
        found = {"a step": f"{step:,.0f}", **{f"  {k}": f"{v:,.0f}" for k, v in stack.parts(updates).items()}}
        found[f"floor: {floor.flop / 1e6:.1f} MFLOP"] = f"{floor.arithmetic:,.0f}"
        found[f"floor: Adam's {floor.bytes / 1e6:.1f} MB"] = f"{floor.traffic:,.0f}"
        found["share of the step that is floor"] = f"{least / step:.0%}"
        found["matrix products alone, own shapes"] = str(floor.products)
        for row, value in found.items():
            rows.setdefault(row, []).append(value)
    for row, values in rows.items():
        table.add_row(row, *values)
    return table


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
