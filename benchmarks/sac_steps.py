"""SAC on HalfCheetah beside Stable-Baselines3's, with SB3's settings, and where our time goes.

    python benchmarks/sac_steps.py [--threads 2] [--rounds 7] [--steps 100] [--no-compile] [--no-flush]

Two layers of 256 in actor and critics (preset `sac-mlp`), batches of 256, one environment, one update a step. Each
is warmed up past its random actions; then they take turns, `steps` environment steps each, learning. Medians of the
rounds, with the smallest and largest. The floor is the update's matrix products alone. Denormal
numbers are taken for zero in both, as our training does; `--no-flush` is the other reading.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import gymnasium as gym
import tyro
from sac_parts import gflop, products_alone
from stepped import SteppedAgent, record
from timing import Options, Rounds, begin, matmul_rate, seconds

from supple.agents.sac import SACSettings
from supple.engine.kinds import presets_of

ENV = "HalfCheetah-v5"
WARM_UP = 300  # environment steps before anything is measured; learning starts after 100
PEER = "Stable-Baselines3"


@dataclass(frozen=True)
class Args(Options):
    threads: int = 2  # of PyTorch, in both
    rounds: int = 7  # turns of each
    steps: int = 100  # environment steps of a turn
    compile: bool = True  # off: leave the compiled contestant out


class Ours:
    """The agent and its environment, stepped as in training; times its parts."""

    def __init__(self, threads: int, mode: Literal["on", "off"]) -> None:
        preset = presets_of("sac")["sac-mlp"].settings
        settings = SACSettings(env=ENV, steps=10**9, num_envs=1, threads=threads, device="cpu", compile=mode, **preset)
        self.run = SteppedAgent("sac", settings)
        self.parts = {name: Rounds(2) for name in ("acting", "environment", "storing", "sampling", "updating")}

    def __call__(self, steps: int) -> None:
        """Return the parts in milliseconds per step."""
        record(self.parts, self.run.live(steps), 1e3 / steps)


def sb3() -> Callable[[int], object]:
    """Return Stable-Baselines3's SAC with all its defaults, in its own loop."""
    from stable_baselines3 import SAC as Peer

    model = Peer("MlpPolicy", gym.make(ENV), seed=0, device="cpu")
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


def main(args: Args) -> bool:
    begin(args.threads, args.flush)
    ours = {"supple, eager": Ours(args.threads, "off")}
    if args.compile:
        ours["supple, compiled"] = Ours(args.threads, "on")
    runs: dict[str, Callable[[int], object]] = {PEER: sb3(), **ours}
    for run in runs.values():
        run(WARM_UP)
    for contestant in ours.values():
        for part in contestant.parts.values():
            part.values.clear()
    agent = ours["supple, eager"].run.agent
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
