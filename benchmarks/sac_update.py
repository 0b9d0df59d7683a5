"""Where does the time of one update of SAC go, part by part, beside what cannot be left out?

    python benchmarks/sac_update.py [--threads 2] [--rounds 300] [--simba]

HalfCheetah's sizes with two layers of 256 and batches of 256 (preset `sac-mlp`), compiled as in training; with
`--simba`, the networks and the batch of the FIRE paper's Table 5. Prints the median microseconds of each part and its
quartiles. The floor of losses and gradients is their matrix products alone, in their shapes. The floor of Adam and of
the target is the same call on one vector with as many entries, which are in the cache.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table
from sac_parts import full_size, products
from sac_speed import data
from timing import begin, matmul_rate, seconds

from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC, Control
from supple.engine.kinds import presets_of

WARM_UP = 30  # updates


@dataclass(frozen=True)
class Args:
    threads: int = 2
    rounds: int = 300  # updates
    simba: bool = False


@dataclass
class Parts:
    """The seconds of each part, one entry per update; a part may consist of several calls."""

    times: dict[str, list[float]] = field(default_factory=dict)

    def begin(self) -> None:
        for values in self.times.values():
            values.append(0.0)

    def time(self, owner: Any, method: str, name: Callable[..., str]) -> None:
        """Put a clock around a method. `name` returns the part from its arguments."""
        inner = getattr(owner, method)

        def timed(*args: Any, **options: Any) -> Any:
            part, result = name(*args), None

            def call() -> None:
                nonlocal result
                result = inner(*args, **options)

            self.times.setdefault(part, [0.0])[-1] += seconds(call)
            return result

        setattr(owner, method, timed)


def mlp() -> SAC:
    preset = presets_of("sac")["sac-mlp"].settings
    settings = SACSettings(env="HalfCheetah-v5", steps=10**9, device="cpu", compile="on", **preset)
    return SAC(settings, {"HalfCheetah-v5": Control(17, (-1.0,) * 6, (1.0,) * 6)})


def alone(shapes: list[tuple[int, int, int, int]]) -> Callable[[], object]:
    operands = [(torch.randn(s, n, k), torch.randn(s, k, m), torch.empty(s, n, m)) for s, n, k, m in shapes]
    return lambda: [torch.bmm(a, b, out=out) for a, b, out in operands]


def split(agent: SAC) -> tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int, int]]]:
    """Return the products of the actor's loss and those of the critics', which together are the update's."""
    n, actor, critic = agent.settings.batch_size, [], []
    for layer in agent.learners["actor"].layers:
        d_out, d_in = layer.weight.shape
        actor += [(1, n, d_in, d_out), (1, d_out, n, d_in)] + [(1, n, d_out, d_in)] * bool(layer.depth)
        critic.append((1, n, d_in, d_out))
    for layer in agent.learners["critic"].layers:
        members, d_out, d_in = layer.weight.shape
        actor += [(members, n, d_in, d_out), (members, n, d_out, d_in if layer.depth else agent.size)]
        critic += 2 * [(members, n, d_in, d_out)] + [(members, d_out, n, d_in)]
        critic += [(members, n, d_out, d_in)] * bool(layer.depth)
    assert sorted(actor + critic) == sorted(products(agent))
    return actor, critic


def adam(parameters: int) -> Callable[[], object]:
    vectors = torch.zeros(4, parameters)
    return lambda: torch._fused_adamw_(
        [vectors[0]], [vectors[1]], [vectors[2]], [vectors[3]], [], [torch.ones(())], lr=1e-3, beta1=0.9, beta2=0.999,
        weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
    )  # fmt: skip


def lerp(parameters: int) -> Callable[[], object]:
    target, critics = torch.zeros(2, parameters)
    return lambda: target.lerp_(critics, 0.005)


def floor(call: Callable[[], object]) -> float:
    """Return the median microseconds of a call."""
    call()
    return 1e6 * median(seconds(call) for _ in range(50))


@contextmanager
def foreach_lerp(parts: Parts) -> Any:
    before = torch._foreach_lerp_
    parts.time(torch, "_foreach_lerp_", lambda *_: "target")
    try:
        yield
    finally:
        torch._foreach_lerp_ = before  # type: ignore[assignment]


def main(args: Args) -> None:
    begin(args.threads)
    agent = full_size(compile="on") if args.simba else mlp()
    update: Any = agent.soft_update
    batch, noise = data(agent)
    parts = Parts()
    parts.time(update, "differentiated", lambda loss, *_: f"{loss.__name__.partition('_')[0]}: loss and gradients")
    parts.time(update, "_step", lambda learner, *_: "AdamW")
    with foreach_lerp(parts):
        for _ in range(WARM_UP):
            update(batch, noise)
        for values in parts.times.values():
            values.clear()
        whole = []
        for _ in range(args.rounds):
            parts.begin()
            whole.append(seconds(lambda: update(batch, noise)))
    rest = [total - sum(values) for total, *values in zip(whole, *parts.times.values(), strict=True)]
    actor, critic = split(agent)
    learners = [learner.module for learner in agent.learners.values()]
    size = sum(p.numel() for module in learners for p in module.parameters())
    critics = sum(p.numel() for p in agent.learners["critic"].module.parameters())
    floors = {
        "actor: loss and gradients": floor(alone(actor)), "critic: loss and gradients": floor(alone(critic)),
        "AdamW": floor(adam(size)), "target": floor(lerp(critics)),
    }  # fmt: skip
    table = Table(title=f"one update of SAC, {args.threads} threads, {args.rounds} updates; µs")
    for column in ("part", "median (quartiles)", "its floor"):
        table.add_column(column)
    for name, values in {**parts.times, "the temperature's gradient, and Python": rest, "update": whole}.items():
        low, middle, high = (1e6 * value for value in quantiles(values, n=4))
        least = sum(floors.values()) if values is whole else floors.get(name)
        table.add_row(name, f"{middle:,.0f} ({low:,.0f}–{high:,.0f})", "" if least is None else f"{least:,.0f}")
    Console().print(table)
    flops = sum(2 * s * n * k * m for s, n, k, m in actor + critic)
    spent = floors["actor: loss and gradients"] + floors["critic: loss and gradients"]
    print(f"products: {flops / spent / 1e3:.0f} GFLOP/s; one of 1024³: {matmul_rate():.0f}")


if __name__ == "__main__":
    main(tyro.cli(Args))
