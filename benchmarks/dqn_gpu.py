"""Gradient steps of DQN per second at batch 32 and replay ratio 1: eager, and replayed as a CUDA graph.

    python benchmarks/dqn_gpu.py [--device cuda] [--updates 2000] [--rounds 5] [--threads 4]

Four games of Asterix step and fill the memory as in a run; every vector step takes four gradient steps. The two ways
take turns; medians of the rounds, with the smallest and largest. `learning` counts everything, `updating` only
`agent.update` and the wait for the GPU after it. Without a GPU (`--device cpu`) there is nothing to record, and the
eager rate stands alone.
"""

import time
from statistics import median
from typing import Literal

import torch
import tyro

from supple.agents.algorithms import ALGORITHMS
from supple.agents.dqn import DQN, DQNSettings
from supple.experiments.hooks import HookDriver

ENV, ENVS = "ALE/Asterix-v5", 4
NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)


class Run:
    """One agent in its environments."""

    def __init__(self, device: Literal["cpu", "cuda"], capture: bool, threads: int) -> None:
        settings = DQNSettings(
            env=ENV, steps=10**9, num_envs=ENVS, threads=threads, device=device, capture=capture, replay_ratio=1.0,
            replay_size=50_000, learning_starts=1_000,
        )  # fmt: skip
        kind = ALGORITHMS["dqn"]
        self.agent = DQN(settings, {ENV: kind.space(settings, ENV)})
        self.envs = kind.envs(settings, ENV, ENVS)
        self.agent.begin_episodes(self.envs.reset(range(ENVS)))

    def __call__(self, updates: int) -> tuple[float, float]:
        """(gradient steps per second of everything, of updating alone)."""
        updating, begin = 0.0, time.perf_counter()
        for _ in range(updates // ENVS):
            self.agent.remember(self.envs.step(self.agent.act()))
            start = time.perf_counter()
            self.agent.update(NO_HOOKS, last=False)
            self.wait()
            updating += time.perf_counter() - start
        return updates / (time.perf_counter() - begin), updates / updating

    def wait(self) -> None:
        if self.agent.device.type == "cuda":
            torch.cuda.synchronize()


def main(device: Literal["cpu", "cuda"] = "cuda", updates: int = 2_000, rounds: int = 5, threads: int = 4) -> None:
    """threads: of the emulators, and of PyTorch on a CPU."""
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no CUDA GPU here: --device cpu times the eager update on the CPU")
    torch.set_num_threads(threads)
    ways = {"eager": Run(device, False, threads)}
    if device == "cuda":
        ways["graph"] = Run(device, True, threads)
    for run in ways.values():
        run(1_200)  # the random steps, and the recording of the graph
    rates = {name: [run(updates)] for name, run in ways.items()}
    for _ in range(rounds - 1):
        for name, run in ways.items():
            rates[name].append(run(updates))
    print(f"gradient steps per second on {device}, batch 32, replay ratio 1: median (min–max) of {rounds} rounds")
    for name, values in rates.items():
        for what, column in (("learning", 0), ("updating", 1)):
            numbers = [value[column] for value in values]
            print(f"  {name:6} {what:9} {median(numbers):8,.0f} ({min(numbers):,.0f}–{max(numbers):,.0f})")
    if "graph" in rates:
        ratio = median(v[1] for v in rates["graph"]) / median(v[1] for v in rates["eager"])
        print(f"  updating: graph / eager {ratio:.2f}")


if __name__ == "__main__":
    tyro.cli(main)
