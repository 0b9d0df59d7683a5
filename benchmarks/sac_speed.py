"""How fast is a full-size update of SAC with SimBa? Beside plain PyTorch and JAX, the same update in all.

    python benchmarks/sac_speed.py [--threads 2] [--rounds 15] [--no-compile]

Observation 51, action 19, actor 1 block × 128, two critics of 2 blocks × 512, batch 256, float32: HumanoidBench's h1 in
the FIRE paper's Table 5. All start from the same weights and learn from the same batch with the same noise; first it
is checked that their losses agree. Then they take turns, one update each; medians of the rounds, with the smallest
and largest. The floor is the update's matrix products alone; their arithmetic is counted in `sac_parts`, and what
share of the rate of a 1024³ product each reaches. JAX takes part where it is installed (`pip install jax optax`).

The machine must be quiet: with other work on its cores, threads that wait for each other by spinning lose most, and
these are PyTorch's. (`OMP_WAIT_POLICY=PASSIVE` before the command helps then.)
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import torch
import tyro
from sac_parts import full_size, gflop, products_alone
from simba_plain import PlainUpdate
from timing import Options, Rounds, begin, matmul_rate, seconds

from supple.agents.sac.agent import SAC
from supple.agents.sac.update import STATISTICS, Transitions

PLAIN, EAGER, COMPILED, JAX = "plain PyTorch", "supple, eager", "supple, compiled", "JAX, jitted"
AGREE = 1e-4  # relative, of every loss
CHECKED = 3  # updates; they also warm up


@dataclass(frozen=True)
class Args(Options):
    threads: int = 2  # of each contestant
    rounds: int = 15  # timed updates of each
    compile: bool = True  # off: leave the compiled contestant out


Update = Callable[[Transitions, torch.Tensor], torch.Tensor]


def make_batch(agent: SAC) -> tuple[Transitions, torch.Tensor]:
    """Return a batch that looks like normalised transitions, and noise (n, 2, actions)."""
    random = torch.Generator().manual_seed(0)
    n, size, observation = agent.settings.batch_size, agent.size, agent.control.observation
    states, next_states = torch.randn(2, n, observation, generator=random)
    actions = 2 * torch.rand(n, size, generator=random) - 1
    rewards = torch.rand(n, generator=random)
    terminated = torch.rand(n, generator=random) < 0.02
    return (
        Transitions(states, actions, rewards, terminated, next_states),
        torch.randn(n, 2, size, generator=random),
    )


def plain(agent: SAC) -> PlainUpdate:
    stacked = agent.critics.net.state_dict()
    members = [{name: values[i] for name, values in stacked.items()} for i in range(agent.settings.critics)]
    return PlainUpdate(agent.actor.state_dict(), members, agent.settings.temperature)


def jitted(agent: SAC) -> Update:
    from simba_jax import JaxUpdate

    update = JaxUpdate(agent)
    return lambda batch, noise: torch.from_numpy(update(batch, noise).copy())


def check(updates: dict[str, Update], batch: Transitions, noise: torch.Tensor) -> None:
    """Return the largest relative difference of any loss in the first updates from ours: all compute the same."""
    ours = torch.stack([updates[EAGER](batch, noise) for _ in range(CHECKED)])
    for name, update in updates.items():
        if name == EAGER:
            continue
        theirs = torch.stack([update(batch, noise) for _ in range(CHECKED)])
        difference = ((theirs - ours).abs() / ours.abs()).amax(0)
        worst = int(difference.argmax())
        print(f"  {name:18} {CHECKED} updates as ours to {difference[worst]:.0e} ({STATISTICS[worst]})")
        if difference[worst] > AGREE:
            raise SystemExit(f"{name} computes something else: {theirs.tolist()}, not {ours.tolist()}")


def main(args: Args) -> bool:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])  # JAX has no other setting for it
    begin(args.threads, args.flush)
    agent = full_size()
    batch, noise = make_batch(agent)
    updates: dict[str, Update] = {PLAIN: plain(agent)}
    if find_spec("jax") and find_spec("optax"):
        updates[JAX] = jitted(agent)
    if args.compile:
        updates[COMPILED] = full_size(compile="on").soft_update
    updates[EAGER] = agent.soft_update
    check(updates, batch, noise)

    runs: dict[str, Callable[[], object]] = {name: partial(update, batch, noise) for name, update in updates.items()}
    runs["products alone"] = products_alone(agent)
    runs["products alone"]()
    times, rate = {name: Rounds() for name in runs}, Rounds(digits=0)
    for _ in range(args.rounds):
        for name, run in runs.items():
            times[name].values.append(1e3 * seconds(run))
        rate.values.append(matmul_rate(repeats=5))

    work = gflop(agent)
    print(
        f"one update: {work:.2f} GFLOP; a 1024³ product: {rate} GFLOP/s; {args.threads} threads, {args.rounds} rounds"
    )
    print(f"  {'':18} {'ms: median (min–max)':24} updates/s  × plain  of the matmul rate")
    for name, values in times.items():
        shares = times[PLAIN].median / values.median, 1e3 * work / values.median / rate.median
        print(f"  {name:18} {values!s:24} {1e3 / values.median:9.2f} {shares[0]:8.2f} {shares[1]:8.0%}")
    best = min(times[name].median for name in (EAGER, COMPILED) if name in times)
    bars = {
        "at least 1.3 × plain PyTorch": times[PLAIN].median / best >= 1.3,
        "at least 60 % of the matmul rate": 1e3 * work / best / rate.median >= 0.6,
    }
    if JAX in times:
        bars["not slower than JAX"] = best <= times[JAX].median
    else:
        print("  JAX is not installed here (pip install jax optax): not compared")
    for bar, met in bars.items():
        print(f"{bar}: {'yes' if met else 'NO'}")
    return all(bars.values())


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
