"""Gradient steps of DQN per second at batch 32 and replay ratio 1: eager, and replayed as a CUDA graph.

    python benchmarks/dqn_gpu.py [--device cuda] [--updates 2000] [--rounds 5] [--threads 4] [--no-flush]

Four games of Asterix step and fill the memory as in a run; every vector step takes four gradient steps. The two ways
take turns; medians of the rounds, with the smallest and largest. `learning` counts everything, `updating` only
`agent.update`, to the end of it on the GPU. Without a GPU (`--device cpu`) there is nothing to record, and the
eager rate stands alone.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import tyro
from stepped import SteppedAgent
from timing import Options, Rounds, begin, seconds

from supple.agents.dqn import DQNSettings

ENV, ENVS = "ALE/Asterix-v5", 4


@dataclass(frozen=True)
class Args(Options):
    device: Literal["cpu", "cuda"] = "cuda"
    updates: int = 2_000  # gradient steps of each way in a round
    rounds: int = 5
    threads: int = 4  # of the emulators, and of PyTorch on a CPU


class Run:
    """One agent in its environments."""

    def __init__(self, args: Args, capture: bool) -> None:
        settings = DQNSettings(
            env=ENV, steps=10**9, num_envs=ENVS, threads=args.threads, device=args.device, capture=capture,
            replay_ratio=1.0, replay_size=50_000, learning_starts=1_000,
        )  # fmt: skip
        self.run = SteppedAgent("dqn", settings, wait=args.device == "cuda")
        self.rates = {"learning": Rounds(0), "updating": Rounds(0)}

    def __call__(self, updates: int) -> None:
        """Return gradient steps per second, of everything and of updating alone."""
        taken = seconds(lambda: self.run.live(updates))
        self.rates["learning"].values.append(updates / taken)
        self.rates["updating"].values.append(updates / self.run.parts["updating"])


def main(args: Args) -> None:
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no CUDA GPU here: --device cpu times the eager update on the CPU")
    begin(args.threads, args.flush)
    ways = {"eager": Run(args, False)}
    if args.device == "cuda":
        ways["graph"] = Run(args, True)
    for run in ways.values():
        run(1_200)  # the random steps, and the recording of the graph
        for rate in run.rates.values():
            rate.values.clear()
    for _ in range(args.rounds):
        for run in ways.values():
            run(args.updates)
    print(f"gradient steps/s on {args.device}, batch 32, replay ratio 1: median (min–max) of {args.rounds} rounds")
    for name, run in ways.items():
        for what, rate in run.rates.items():
            print(f"  {name:6} {what:9} {rate}")
    if "graph" in ways:
        graph, eager = (ways[name].rates["updating"].median for name in ("graph", "eager"))
        print(f"  updating: graph / eager {graph / eager:.2f}")


if __name__ == "__main__":
    main(tyro.cli(Args))
