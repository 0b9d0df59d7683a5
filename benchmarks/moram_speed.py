"""MoRAM beside PEFT's LoRA on the same Linear layer: time of a pass, its growth with tasks, and where gathering pays.

    python benchmarks/moram_speed.py

The floor, in floating-point operations for n tokens and width d: Linear 2·n·d²; LoRA of rank r adds 4·n·r·d; MoRAM with
N atoms adds 2·n·N·d for the scores of all keys, and 2·n·k·d (values gathered) or 2·n·N·d (dense) for the values. With
N = 160 and r = k = 16 that is 1.14× (gathered) or 1.27× (dense) LoRA's at d = 1024, and half as much above 1 at 2048;
top-k and softmax come on top. Criterion: a forward pass with 10 tasks of 16 atoms, k = 16, takes at most 1.5× that of
PEFT's LoRA of rank 16, Linear included. All variants take turns within a round, so that a busy machine slows them
alike; times are medians over rounds, ratios medians of the ratios within a round.
"""

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import tyro
from peft.tuners.lora.config import LoraConfig
from peft.tuners.lora.layer import Linear as PeftLoRA
from rich.console import Console
from rich.table import Table
from timing import Options, begin
from torch import nn

from supple.tracks.language import MoRAM
from supple.tracks.language.adapters import moram as moram_module

BAR = 1.5


@dataclass(frozen=True)
class Args(Options):
    rounds: int = 7  # in which every variant has its turn, after one that is not counted
    tokens: int = 512  # in a pass
    widths: tuple[int, ...] = (1024, 2048)  # of the square Linear
    threads: tuple[int, ...] = (1, 2)  # of PyTorch


def peft_lora(linear: nn.Linear, r: int = 16) -> nn.Module:
    layer = PeftLoRA(linear, "default", LoraConfig(r=r, lora_alpha=r), r=r, lora_alpha=r)
    nn.init.normal_(layer.lora_B["default"].weight, std=0.02)
    return layer


def moram(linear: nn.Linear, tasks: int, r: int = 16, k: int = 16) -> MoRAM:
    adapter = MoRAM(linear, r=r, k=k)
    for _ in range(tasks):
        adapter.add_task()
        nn.init.normal_(adapter.B, std=0.02)
    return adapter


def time_variants(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each variant in each round."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, run in variants.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - start)
    return times


def ratio(times: Mapping[str, list[float]], name: str, to: str) -> float:
    return statistics.median(a / b for a, b in zip(times[name], times[to], strict=True))


def make_forward_pass(module: nn.Module, x: torch.Tensor, values: str = "chosen") -> Callable[[], object]:
    """Return a call that makes a pass in evaluation. values: gathered, dense, or as the rule chooses."""
    threshold = {"gathered": 0, "dense": sys.maxsize, "chosen": moram_module.GATHER_FROM}[values]

    @torch.no_grad()
    def run() -> None:
        module.eval()
        chosen, moram_module.GATHER_FROM = moram_module.GATHER_FROM, threshold
        module(x)
        moram_module.GATHER_FROM = chosen

    return run


def make_training_pass(module: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    """Return a call that makes a pass forward and backward, down to the inputs."""
    x = x.clone().requires_grad_()

    def run() -> None:
        module.train()
        module(x).sum().backward()

    return run


def side_by_side(args: Args, width: int, threads: int, table: Table) -> bool:
    torch.set_num_threads(threads)
    linear, x = nn.Linear(width, width), torch.randn(args.tokens, width)
    modules: dict[str, nn.Module] = {"Linear": linear, "LoRA r=16 (PEFT)": peft_lora(linear)}
    modules |= {f"MoRAM {tasks} × 16": moram(linear, tasks) for tasks in (1, 10)}
    passes = time_variants({name: make_forward_pass(module, x) for name, module in modules.items()}, args.rounds)
    steps = time_variants({name: make_training_pass(module, x) for name, module in modules.items()}, args.rounds)
    for name in modules:
        row = [str(width), str(threads), name]
        for times in (passes, steps):
            row += [f"{1e3 * statistics.median(times[name]):.1f}", f"{ratio(times, name, 'LoRA r=16 (PEFT)'):.2f}"]
        table.add_row(*row)
    return ratio(passes, "MoRAM 10 × 16", "LoRA r=16 (PEFT)") <= BAR


def print_growth(args: Args, width: int, console: Console) -> None:
    """Print the cost against the number of tasks."""
    linear, x = nn.Linear(width, width), torch.randn(args.tokens, width)
    tasks = (1, 2, 5, 10, 20, 40)
    variants = {"LoRA": make_forward_pass(peft_lora(linear), x)} | {
        str(t): make_forward_pass(moram(linear, t), x) for t in tasks
    }
    times = time_variants(variants, args.rounds)
    curve = ", ".join(f"{t}: {ratio(times, str(t), 'LoRA'):.2f}" for t in tasks)
    console.print(f"forward, times LoRA's, by tasks of 16 atoms (width {width}, 1 thread): {curve}")


def print_crossing(args: Args, width: int, console: Console) -> None:
    """Print the time of gathered against dense values, by atoms for each one kept."""
    x = torch.randn(args.tokens, width)
    linear = nn.Linear(width, width)
    for k in (4, 16):
        line = []
        for share in (2, 3, 4, 6, 10):
            adapter = moram(linear, share, r=k, k=k)
            adapter.linear = nn.Identity()  # type: ignore[assignment]  # the atoms' part alone
            times = time_variants(
                {way: make_forward_pass(adapter, x, way) for way in ("gathered", "dense")}, 5 * args.rounds
            )
            line.append(f"{share}: {ratio(times, 'gathered', 'dense'):.2f}")
        console.print(f"gathered/dense, by atoms over k (k {k}, width {width}, 1 thread): {', '.join(line)}")


def main(args: Args) -> bool:
    begin(max(args.threads), args.flush)
    torch.manual_seed(0)
    console = Console(width=110)
    table = Table(title=f"{args.tokens} tokens, float32; milliseconds, and times PEFT's LoRA")
    for column in ("width", "threads", "layer", "forward", "×", "forward + backward", "×"):
        table.add_column(column, justify="left" if column == "layer" else "right")
    passed = [side_by_side(args, width, threads, table) for width in args.widths for threads in args.threads]
    console.print(table)
    torch.set_num_threads(1)
    print_growth(args, args.widths[0], console)
    print_crossing(args, args.widths[0], console)
    console.print(f"forward with 10 tasks at most {BAR}× LoRA's: {'yes' if all(passed) else 'NO'}")
    return all(passed)


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
