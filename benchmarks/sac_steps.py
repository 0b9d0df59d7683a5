"""SAC on HalfCheetah beside Stable-Baselines3's, with SB3's settings, and where our time goes.

    python benchmarks/sac_steps.py [--threads 2] [--rounds 7] [--steps 100] [--no-compile]

Two layers of 256 in actor and critics (preset `sac-mlp`), batches of 256, one environment, one update a step. Each
is warmed up past its random actions; then they take turns, `steps` environment steps each, learning. Medians of the
rounds, with the smallest and largest. The floor is the update's matrix products alone.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import gymnasium as gym
import torch
import tyro
from sac_parts import NO_HOOKS, Rounds, gflop, matmul_rate, products_alone, seconds

from supple.agents.algorithms import ALGORITHMS
from supple.agents.offpolicy.replay import Sample
from supple.agents.presets import PRESETS
from supple.agents.sac import SAC, SACSettings

ENV = "HalfCheetah-v5"
WARM_UP = 300  # environment steps before anything is measured; learning starts after 100
PEER = "Stable-Baselines3"


@dataclass(frozen=True)
class Args:
    threads: int = 2  # of PyTorch, in both
    rounds: int = 7  # turns of each
    steps: int = 100  # environment steps of a turn
    compile: bool = True  # off: leave the compiled contestant out


class Ours:
    """The agent and its environment, stepped as `agents/loop.py` does; times its parts."""

    def __init__(self, threads: int, mode: Literal["on", "off"]) -> None:
        settings = SACSettings(
            env=ENV, steps=10**9, num_envs=1, threads=threads, device="cpu", compile=mode, **PRESETS["sac-mlp"].settings
        )
        kind = ALGORITHMS["sac"]
        self.agent = SAC(settings, {ENV: kind.space(settings, ENV)})
        self.envs = kind.envs(settings, ENV, 1)
        self.agent.begin_episodes(self.envs.reset(range(1)))
        self.parts = {name: Rounds(2) for name in ("acting", "environment", "storing", "sampling", "updating")}
        self.sampling = 0.0
        feed = self.agent.experience.feed

        def timed_feed(size: int, generator: torch.Generator) -> Sample:
            begin = time.perf_counter()
            sample = feed(size, generator)
            self.sampling += time.perf_counter() - begin
            return sample

        self.agent.experience.feed = timed_feed

    def __call__(self, steps: int) -> None:
        """Parts in milliseconds per step."""
        clock, self.sampling = time.perf_counter, 0.0
        spent = [0.0] * 4
        for _ in range(steps):
            a = clock()
            actions = self.agent.act()
            b = clock()
            result = self.envs.step(actions)
            c = clock()
            self.agent.remember(result)
            d = clock()
            self.agent.update(NO_HOOKS, last=False)
            for i, took in enumerate((b - a, c - b, d - c, clock() - d)):
                spent[i] += took
        acting, environment, storing, update = spent
        found = acting, environment, storing, self.sampling, update - self.sampling
        for part, took in zip(self.parts.values(), found, strict=True):
            part.values.append(1e3 * took / steps)


def sb3() -> Callable[[int], object]:
    """Stable-Baselines3's SAC with all its defaults, in its own loop."""
    from stable_baselines3 import SAC as Peer

    model = Peer("MlpPolicy", gym.make(ENV), seed=0, device="cpu")
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


def main(args: Args) -> bool:
    torch.set_num_threads(args.threads)
    ours = {"supple, eager": Ours(args.threads, "off")}
    if args.compile:
        ours["supple, compiled"] = Ours(args.threads, "on")
    runs: dict[str, Callable[[int], object]] = {PEER: sb3(), **ours}
    for run in runs.values():
        run(WARM_UP)
    for contestant in ours.values():
        for part in contestant.parts.values():
            part.values.clear()
    agent = ours["supple, eager"].agent
    products = products_alone(agent)
    rates, alone, machine = {name: Rounds() for name in runs}, Rounds(2), Rounds(0)
    for _ in range(args.rounds):
        for name, run in runs.items():
            rates[name].values.append(args.steps / seconds(lambda run=run: run(args.steps)))  # type: ignore[misc]
        alone.values += [1e3 * seconds(products) for _ in range(10)]
        machine.values.append(matmul_rate(repeats=5))

    print(
        f"{ENV}, {args.threads} threads, {args.rounds} rounds of {args.steps} steps in turn; steps/s: median (min–max)"
    )
    for name, values in rates.items():
        print(f"  {name:18} {values!s:22} {values.median / rates[PEER].median:5.2f} × SB3")
    print("where our time goes, milliseconds per step")
    for name, contestant in ours.items():
        print(f"  {name}: " + ", ".join(f"{part} {values}" for part, values in contestant.parts.items()))
    print(
        f"  the update's matrix products alone (floor): {alone} ms; "
        f"{gflop(agent):.2f} GFLOP at {machine.median:.0f} GFLOP/s: {1e3 * gflop(agent) / machine.median:.2f} ms"
    )
    best = max(rates[name].median for name in ours) / rates[PEER].median
    print(f"at least 1.4 × Stable-Baselines3: {'yes' if best >= 1.4 else 'NO'} ({best:.2f})")
    return best >= 1.4


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
