"""QQᵀ(t) of a two-layer linear network at many times: one decomposition and batched evaluation, beside the formula
as it stands (eq. 7) time by time, and beside integration of the gradient flow.

    python benchmarks/linear_exact.py

The floor, in floating-point operations for n = N_i + N_o and h = N_h: I + TᵀΦT 2·n·h², its Cholesky root h³/3, the
triangular solve n·h², the rotation by P 2·n²·h and L·Lᵀ 2·n²·h for each time, over the rate of a large matrix product
on this machine, measured here; and 8·n² bytes for each time, over the rate of filling fresh memory. The peer takes the
eigenvectors of F once and numpy's inverse for every time; it fails once e^{2Λt} passes 10¹⁶, so all variants take
times before that. Integration gives ten times over the same span.
Criterion: 10,000 times of a 50-dimensional network in under one second.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from timing import Options, begin, seconds

from supple.tracks.linear import Exact, balanced_init, gradient_flow
from supple.tracks.linear.weights import Array

BAR = 1.0  # seconds


@dataclass(frozen=True)
class Args(Options):
    sizes: tuple[tuple[int, int, int], ...] = ((25, 25, 25), (50, 50, 50))  # N_i, N_h, N_o
    times: int = 10_000  # at which QQᵀ is evaluated
    rounds: int = 5  # in which every variant has its turn, after one that is not counted
    threads: int = 2  # of PyTorch


def formula(w1: Array, w2: Array, sigma: Array, times: Array) -> Array:
    """Evaluate equation 7, one time after the other."""
    lam = np.trace(w2.T @ w2 - w1 @ w1.T) / len(w1)
    n_in, n_out = w1.shape[1], w2.shape[0]
    f = np.block([[-lam / 2 * np.eye(n_in), sigma.T], [sigma, lam / 2 * np.eye(n_out)]])
    values, p = np.linalg.eigh(f)
    y = p.T @ np.concatenate([w1.T, w2])
    out = np.empty((len(times), len(f), len(f)))
    for place, t in enumerate(times):
        grown = p @ (np.exp(values * t)[:, None] * y)
        inner = np.eye(len(w1)) + y.T @ (np.expm1(2 * values * t)[:, None] / (2 * values[:, None]) * y)
        out[place] = grown @ np.linalg.inv(inner) @ grown.T
    return out


def time_floor(n: int, h: int, times: int) -> tuple[float, float]:
    """Return the seconds of the operations and of the memory traffic that cannot be avoided."""
    a = torch.randn(1500, 1500, dtype=torch.float64)
    rate = 2 * 1500**3 / min(seconds(lambda: a @ a) for _ in range(5))
    operations = times * (2 * n * h**2 + h**3 / 3 + n * h**2 + 4 * n**2 * h)
    return operations / rate, min(
        seconds(lambda: torch.empty(times, n, n, dtype=torch.float64).fill_(1.0)) for _ in range(3)
    )


def time_variants(sizes: tuple[int, int, int], args: Args) -> dict[str, list[float]]:
    """Return the seconds of each variant in each round."""
    rng = np.random.default_rng(0)
    w1, w2 = balanced_init(2.0, *sizes, 0.1, rng)
    sigma = rng.normal(size=(sizes[2], sizes[0])) / np.sqrt(sizes[0])
    times = np.linspace(0, 15 / np.hypot(np.linalg.svd(sigma)[1][0], 1.0), args.times)
    variants: dict[str, Callable[[], object]] = {
        "QQᵀ": lambda: Exact(w1, w2, sigma).qq(times),
        "W₂W₁ alone": lambda: Exact(w1, w2, sigma).function(times),
        "eq. 7 time by time": lambda: formula(w1, w2, sigma, times),
        "integration, ten times": lambda: gradient_flow(w1, w2, sigma, times[:: args.times // 10]),
    }
    error = np.abs(Exact(w1, w2, sigma).qq(times[::500]) - formula(w1, w2, sigma, times[::500])).max()
    assert error < 1e-8, error
    rounds = [{name: seconds(run) for name, run in variants.items()} for _ in range(args.rounds + 1)]
    return {name: [each[name] for each in rounds[1:]] for name in variants}


def main(args: Args) -> None:
    begin(args.threads, args.flush)
    console = Console()
    for sizes in args.sizes:
        n_in, n_hidden, n_out = sizes
        rows = time_variants(sizes, args)
        operations, memory = time_floor(n_in + n_out, n_hidden, args.times)
        table = Table("", "seconds", "min–max", "× QQᵀ", title=f"{n_in}-{n_hidden}-{n_out}, {args.times:,} times")
        table.add_row("floor: operations + memory", f"{operations:.3f} + {memory:.3f}")
        for name, took in rows.items():
            ratio = statistics.median(a / b for a, b in zip(took, rows["QQᵀ"], strict=True))
            table.add_row(name, f"{statistics.median(took):.3f}", f"{min(took):.3f}–{max(took):.3f}", f"{ratio:.2f}")
        console.print(table)
        middle = statistics.median(rows["QQᵀ"])
        console.print(f"criterion {BAR:.0f} s: {'met' if middle <= BAR else 'missed'} ({middle:.2f} s)")


if __name__ == "__main__":
    main(tyro.cli(Args))
