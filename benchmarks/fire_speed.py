"""How fast is FIRE? Its rate against the machine's own matrix product, and its price beside exact SVD.

    python benchmarks/fire_speed.py --threads 2

Prints (a) the rate of torch.mm here and now, (b) FIRE on VGG-16's weights by several methods, and tap by tap
in a Python loop, (c) FIRE on a small agent network. All times are medians; noise is the distance between the
quartiles over the median.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import tyro
from rich.console import Console
from rich.table import Table
from timing import Options, Timing, begin, measure
from torch import Tensor, nn

from supple.interventions.isometry import fire_
from supple.interventions.orthogonalize import orthogonalize
from supple.networks import isometry_scale

VGG16 = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)  # Simonyan & Zisserman 2015, column D


@dataclass(frozen=True)
class Args(Options):
    threads: int = 2  # threads of torch
    repeats: int = 7  # timed runs of each line, after one that is not timed
    slow_repeats: int = 3  # the same for the lines that take seconds (SVD, Python loop)


def format_rate(timing: Timing) -> str:
    return f"{1e3 * timing.seconds:,.2f} ms ± {timing.noise:.0%}"


def matmul_rate(size: int, repeats: int) -> tuple[float, Timing]:
    """Return the FLOP/s of a float32 product of two square matrices, without allocations."""
    a, b, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    products = max(1, round(2e9 / size**3))  # ≥ 20 ms per timing

    def run() -> None:
        for _ in range(products):
            torch.mm(a, b, out=out)

    timing = measure(run, repeats)
    return 2 * size**3 * products / timing.seconds, timing


def vgg16(classes: int = 10) -> nn.Sequential:
    """Return VGG-16 with batch norm for 32×32 inputs: 13 convolutions 3×3, then 512-512-`classes` linear."""
    layers: list[nn.Module] = []
    for c_in, c_out in zip((3, *VGG16), VGG16, strict=False):
        layers += [nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, classes))


def agent() -> nn.Sequential:
    """Return three hidden layers of 256 on Ant's 105 observations, and heads for 8 actions and a value."""
    hidden = [nn.Linear(105, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(256, 8), nn.Linear(256, 1))


def weights_of(module: nn.Module) -> list[Tensor]:
    return [layer.weight.detach() for layer in module.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]


def cubic_flops(module: nn.Module, steps: int = 10) -> float:
    """Return the operations of FIRE's cubic method.

    These are 2k²N for the Gram matrix (counted in full: torch has no symmetric product) and 2k²N for the product with
    it, per step and matrix with sides N ≥ k. Normalisation, scale and copies are not counted."""
    total = 0
    for weight in weights_of(module):
        k, n = sorted(weight.shape[:2])
        total += weight[0, 0].numel() * steps * 4 * k * k * n
    return total


@torch.no_grad()
def fire_tap_by_tap(module: nn.Module) -> None:
    """Compute the same result, one matrix at a time."""
    for weight in weights_of(module):
        taps = weight.flatten(2).unbind(2) if weight.ndim == 4 else (weight,)
        for tap in taps:
            tap.copy_(orthogonalize(tap).mul_(isometry_scale(weight)))


def compare(title: str, module: nn.Module, machine: float, args: Args, console: Console) -> None:
    flops = cubic_flops(module)
    initial = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    table = Table(title=f"{title}: {flops / 1e9:,.2f} GFLOP in 10 cubic steps")
    for column in ("FIRE by", "time", "ratio", "GFLOP/s", "of matmul"):
        table.add_column(column, justify="left" if column == "FIRE by" else "right")
    lines: list[tuple[str, Callable[[], object], int]] = [
        ("newton_schulz", lambda: fire_(module), args.repeats),
        ("the same, tap by tap", lambda: fire_tap_by_tap(module), args.slow_repeats),
        ("polar_express", lambda: fire_(module, "polar_express"), args.repeats),
        ("polar (SVD)", lambda: fire_(module, "polar"), args.slow_repeats),
    ]
    reference = 0.0
    for name, call, repeats in lines:
        timing = measure(call, repeats, before=lambda: module.load_state_dict(initial))
        reference = reference or timing.seconds
        rate = None if name.startswith("polar") else flops / timing.seconds
        table.add_row(
            name,
            format_rate(timing),
            f"{timing.seconds / reference:.2f}×",
            f"{rate / 1e9:.0f}" if rate else "",
            f"{rate / machine:.0%}" if rate else "",
        )
    console.print(table)


def main(args: Args) -> None:
    begin(args.threads, args.flush)
    torch.manual_seed(0)
    console = Console()
    table = Table(title=f"torch.mm, float32, {args.threads} threads")
    for column in ("size", "GFLOP/s", "noise"):
        table.add_column(column, justify="right")
    rates = {}
    for size in (128, 256, 512, 1024):
        rates[size], timing = matmul_rate(size, 15)
        table.add_row(f"{size}³", f"{rates[size] / 1e9:.0f}", f"{timing.noise:.0%}")
    console.print(table)
    machine = max(rates.values())
    compare("VGG-16 (32×32, head 512-512-10)", vgg16(), machine, args, console)
    compare("agent 105-256-256-256, heads 8 and 1", agent(), machine, args, console)
    console.print(f"The matmul rate is the best of the sizes above, {machine / 1e9:.0f} GFLOP/s.")


if __name__ == "__main__":
    main(tyro.cli(Args))
