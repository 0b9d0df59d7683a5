"""Would PyTorch's compiler, oneDNN's options or bfloat16 make the network passes of DQN's update faster?

    python benchmarks/dqn_update.py [--threads 2] [--rounds 7] [--passes 30]

One gradient step of DQN without its optimizer: the Nature CNN forward and backward on a batch of 32, and forward for
the targets. Every way of computing it takes its turn in each round. Prints milliseconds as the median (least to
greatest) of the rounds, the ratio to the way in which DQN trains by default, and the largest difference of a gradient
from that way's, relative to the largest entry of that gradient.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table
from timing import Rounds, begin, matmul_rate, seconds
from torch import Tensor

from supple.agents.dqn.network import NatureCNN

BATCH, STACK, SIDE, ACTIONS, HIDDEN = 32, 4, 84, 9, 512


@dataclass(frozen=True)
class Args:
    threads: int = 2
    rounds: int = 7
    passes: int = 30  # gradient steps in each turn


def network() -> NatureCNN:
    return NatureCNN(STACK, SIDE, SIDE, ACTIONS, HIDDEN, "relu", torch.Generator().manual_seed(0))


def bfloat16() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", torch.bfloat16)


@contextmanager
def set_precision_of_products(precision: str) -> Any:
    """Let oneDNN compute float32 convolutions and products in a lower precision, its own option."""
    backends: list[Any] = [torch.backends.mkldnn.conv, torch.backends.mkldnn.matmul]  # type: ignore[attr-defined]
    before = [backend.fp32_precision for backend in backends]
    for backend in backends:
        backend.fp32_precision = precision
    try:
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.fp32_precision = value


@dataclass
class Way:
    """A way of computing the passes: what PyTorch is told meanwhile, and what is done to the networks before."""

    within: Callable[[], AbstractContextManager[Any]] = nullcontext
    compiled: str | None = None  # torch.compile's mode
    channels_last: bool = True

    def make_passes(self, frames: Tensor) -> Callable[[], list[Tensor]]:
        """Return the call that makes the passes and returns the gradients."""
        online, target = network(), network()
        parameters = list(online.parameters())
        if not self.channels_last:
            for net in (online, target):
                net.to(memory_format=torch.contiguous_format)
        layout = torch.channels_last if self.channels_last else torch.contiguous_format

        def value(net: NatureCNN, x: Tensor) -> Tensor:
            pixels = x.contiguous(memory_format=layout).float().mul_(1 / 255)
            output: Tensor = net.mlp(net.encoder(pixels))
            return output

        if self.compiled is not None:
            value = torch.compile(value, mode=self.compiled)

        def call() -> list[Tensor]:
            with self.within():
                with torch.no_grad():
                    wanted = value(target, frames[:, 1:])
                loss = (value(online, frames[:, :-1]).float() - wanted.float()).square().sum()
            return list(torch.autograd.grad(loss, parameters))

        return call


WAYS = {
    "float32, channels last (the default)": Way(),
    "contiguous": Way(channels_last=False),
    "without oneDNN": Way(lambda: torch.backends.mkldnn.flags(enabled=False)),  # type: ignore[no-untyped-call]
    "torch.compile": Way(compiled="default"),
    "torch.compile, max-autotune": Way(compiled="max-autotune-no-cudagraphs"),
    "oneDNN's fp32_precision bf16": Way(lambda: set_precision_of_products("bf16")),
    "autocast to bfloat16 (--precision bfloat16)": Way(bfloat16),
    "autocast to bfloat16, torch.compile": Way(bfloat16, compiled="default"),
}


def difference(gradients: list[Tensor], reference: list[Tensor]) -> float:
    pairs = zip(gradients, reference, strict=True)
    return max(float((a.float() - b).abs().max() / b.abs().max()) for a, b in pairs)


def main(args: Args) -> None:
    begin(args.threads)
    torch.manual_seed(0)
    frames = torch.randint(0, 256, (BATCH, STACK + 1, SIDE, SIDE), dtype=torch.uint8)
    calls = {name: way.make_passes(frames) for name, way in WAYS.items()}
    reference = calls[next(iter(WAYS))]()
    differences = {name: difference(call(), reference) for name, call in calls.items()}  # compiles, too
    times = {name: Rounds(digits=2) for name in calls}
    for _ in range(args.rounds):
        for name, call in calls.items():
            call()
            times[name].values.append(1e3 * median(seconds(call) for _ in range(args.passes)))
    base = times[next(iter(WAYS))].median
    table = Table(title=f"DQN's network passes, batch {BATCH}, {args.threads} threads, {args.rounds} rounds")
    for column in ("way", "ms", "× the default", "largest difference of a gradient"):
        table.add_column(column)
    for name, rounds in times.items():
        table.add_row(name, str(rounds), f"{rounds.median / base:.2f}", f"{differences[name]:.0e}")
    Console().print(table)
    print(f"one product of 1024³: {matmul_rate():.0f} GFLOP/s")


if __name__ == "__main__":
    main(tyro.cli(Args))
