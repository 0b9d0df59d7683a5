"""What does scale-invariant balancing cost on top of the gradient pass that it needs? In time and in memory.

    python benchmarks/sib_cost.py [--rounds 3] [--tokens 1024] [--threads 1] [--layers 30] [--no-memory]

A LLaMA as large as SmolLM2-135M (30 layers of width 576, 9 heads over 3 of keys and values, random weights, float32),
one batch of `tokens` tokens. Time (of the processor, so that neighbours do not count): in each round a gradient of the
loss by the paired weights alone, then `sib_`, which takes the same and does its own work; that work is also timed by
itself, on gradients that are there already. The share of the latter in the former is the criterion, since a difference
of two times of some seconds is mostly noise.
Memory: the largest resident set of a process of its own that does nothing else, for the gradient pass by the paired
weights, for the one by all weights (`backward`), and for `sib_`.
Criteria: at most 1 % of the time on top; at most 1.1 times the memory of the gradient pass.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Literal

import timing
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from supple.interventions import scale_pairs, sib_


@dataclass(frozen=True)
class Args(timing.Options):
    rounds: int = 3  # of timing
    tokens: int = 1024  # in the batch
    threads: int = 1  # of torch
    layers: int = 30  # of the model
    memory: bool = True  # off: time alone
    only: Literal["idle", "pairs", "backward", "sib"] | None = None  # for the processes of its own: do this and say KiB


def build(args: Args) -> tuple[nn.Module, Callable[[], Tensor]]:
    """Return a model of SmolLM2-135M's configuration with random weights, and a loss on one batch."""
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=args.layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    tokens = torch.randint(49152, (1, args.tokens))
    return model, lambda: model(input_ids=tokens, labels=tokens, use_cache=False).loss


def paired(model: nn.Module) -> list[Tensor]:
    return [weight for pair in scale_pairs(model) for weight in pair.weights]


def alone(args: Args) -> None:
    """Run one thing in this process, and print its largest resident set in KiB."""
    model, loss = build(args)
    if args.only == "pairs":
        torch.autograd.grad(loss(), paired(model))
    elif args.only == "backward":
        loss().backward()
    elif args.only == "sib":
        sib_(model, loss)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def peak(args: Args, only: str) -> float:
    """Return the MiB that a new process takes at most."""
    size = ["--tokens", str(args.tokens), "--threads", str(args.threads), "--layers", str(args.layers)]
    size.append("--flush" if args.flush else "--no-flush")
    command = [sys.executable, __file__, "--only", only, *size]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]) / 1024


seconds = partial(timing.seconds, clock=time.process_time)


def main(args: Args) -> bool:
    timing.begin(args.threads, args.flush)
    if args.only:
        alone(args)
        return True
    memory = {only: peak(args, only) for only in ("idle", "pairs", "backward", "sib")} if args.memory else {}

    model, loss = build(args)
    weights = paired(model)
    passes, whole, own = [], [], []
    for number in range(1 + args.rounds):
        gradients: list[Tensor] = []
        took = seconds(lambda into=gradients: into.extend(torch.autograd.grad(loss(), weights)))
        # its own work alone: a loss whose gradient is what was just found
        handed = Handed.apply(gradients, *weights)
        extra = seconds(lambda at=handed: sib_(model, lambda: at))
        full = seconds(lambda: sib_(model, loss))
        if number:  # the first round warms up
            passes.append(took)
            own.append(extra)
            whole.append(full)

    share = median(own) / median(passes)
    ratio = memory["sib"] / memory["pairs"] if memory else 0.0
    table = Table(title=f"LLaMA, {args.layers} layers of 576, {args.tokens} tokens, {args.threads} thread(s)")
    for column in ("", "CPU seconds: median (min–max)", "peak memory, MiB"):
        table.add_column(column, justify="right" if column else "left")
    for name, times, mib in (
        ("the model alone", [], memory.get("idle")),
        ("gradient by the paired weights", passes, memory.get("pairs")),
        ("gradient by all weights, backward()", [], memory.get("backward")),
        ("sib_, which has the former in it", whole, memory.get("sib")),
        ("  its own work on gradients that are there", own, None),
    ):
        spread = f"{median(times):.3f} ({min(times):.3f}–{max(times):.3f})" if times else ""
        table.add_row(name, spread, "" if mib is None else f"{mib:,.0f}")
    Console(width=110).print(table)
    print(f"at most 1 % of the time on top: {'yes' if share <= 0.01 else 'NO'} ({share:.2%})")
    if memory:
        print(f"at most 1.1 times the memory: {'yes' if ratio <= 1.1 else 'NO'} ({ratio:.3f})")
    return share <= 0.01 and ratio <= 1.1


class Handed(torch.autograd.Function):
    """A number whose gradient by some weights is what it was handed."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, gradients: list[Tensor], *weights: Tensor) -> Tensor:
        context.gradients = gradients  # type: ignore[attr-defined]
        return weights[0].new_zeros(())

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *context.gradients)  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
