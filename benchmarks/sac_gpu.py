"""Full-size updates of SAC with SimBa per second on a GPU, and h1-walk end to end at replay ratio 2.

    SUPPLE_HUMANOID_ASSETS=… python benchmarks/sac_gpu.py [--device cuda] [--updates 960] [--rounds 5] [--envs 16]

Updates eager, recorded as a CUDA graph, compiled, and compiled and recorded, each with float32 products and with TF32.
`updating` is what `agent.update` takes with the batches it draws from a memory of random transitions, 16 updates at a
time, and the wait for the GPU after it. `end to end` steps the task too (its environments run one after the other on
the CPU) and counts environment steps, two for each decision. The ways take turns; medians of the rounds, with the
smallest and largest. Without a GPU (`--device cpu`) nothing is recorded and there is no TF32.
"""

import sys
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import torch
import tyro
from sac_parts import ENV, SETTINGS, full_size, gflop
from stepped import NO_HOOKS, SteppedAgent
from timing import Options, Rounds, begin, seconds

from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.envs import StepResult

AT_ONCE = 16  # updates: what the agent draws together at most
RANDOM_STEPS = 1_000  # decisions before learning, end to end


@dataclass(frozen=True)
class Args(Options):
    device: Literal["cpu", "cuda"] = "cuda"
    updates: int = 960  # of each way in a round
    rounds: int = 5
    envs: int = 16  # environments of h1-walk; 0: no end-to-end run
    steps: int = 2_000  # environment steps of each way in a round, end to end
    threads: int = 4  # of PyTorch on the CPU
    compile: bool = True  # off: leave the compiled ways out


class Way:
    """One way to take updates: how losses are computed, and in which precision the products are."""

    def __init__(self, args: Args, compile: bool, capture: bool, tf32: bool) -> None:
        self.settings: dict[str, Any] = {
            "device": args.device, "threads": args.threads, "compile": "on" if compile else "off", "capture": capture,
        }  # fmt: skip
        self.tf32 = tf32
        ways = [word for word, used in (("compiled", compile), ("graph", capture)) if used]
        self.name = f"{' + '.join(ways) or 'eager'}, {'TF32' if tf32 else 'float32'}"

    def set_precision(self) -> None:
        torch.set_float32_matmul_precision("high" if self.tf32 else "highest")


class Updating:
    """Updates on random transitions; no environment."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.agent = full_size(num_envs=AT_ONCE, replay_ratio=1.0, learning_starts=0, **way.settings)
        self.random = np.random.default_rng(0)
        self.agent.begin_episodes(self._observations())

    def _observations(self) -> np.ndarray:
        return self.random.standard_normal((AT_ONCE, self.agent.control.observation))

    def __call__(self, updates: int) -> float:
        """Return updates per second."""
        self.way.set_precision()
        spent = 0.0
        for _ in range(updates // AT_ONCE):
            self.agent.act()
            obs, never = self._observations(), np.zeros(AT_ONCE, bool)
            self.agent.remember(StepResult(obs, self.random.random(AT_ONCE), never, never, obs, []))
            wait(self.agent)
            spent += seconds(self._update)
        return updates / spent

    def _update(self) -> None:
        self.agent.update(NO_HOOKS, last=False)
        wait(self.agent)


class EndToEnd:
    """h1-walk as `supple train sac` trains it, parallel environments."""

    def __init__(self, way: Way, envs: int) -> None:
        self.way = way
        chosen = SETTINGS | way.settings
        chosen |= {"num_envs": envs, "learning_starts": RANDOM_STEPS, "replay_size": 100_000}
        self.run = SteppedAgent("sac", SACSettings(**chosen))
        self.stride = self.run.work.settings.stride

    def __call__(self, steps: int) -> float:
        """Return environment steps per second."""
        self.way.set_precision()
        taken = steps // self.stride * self.stride
        return taken / seconds(lambda: self._live(taken))

    def _live(self, steps: int) -> None:
        self.run.live(steps)
        wait(self.run.agent)


def wait(agent: SAC) -> None:
    if agent.device.type == "cuda":
        torch.cuda.synchronize()


def main(args: Args) -> bool:
    on_gpu = args.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        raise SystemExit("no CUDA GPU here: --device cpu times the updates on the CPU")
    begin(args.threads, args.flush)
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    gpu_only = (False, True) if on_gpu else (False,)
    ways = [Way(args, *way) for way in product((False, True) if args.compile else (False,), gpu_only, gpu_only)]

    updating = {way.name: Updating(way) for way in ways}
    for run in updating.values():
        run(5 * AT_ONCE)  # the eager calls before a recording, the recording, and compiling
    found = {way: Rounds() for way in updating}
    for _ in range(args.rounds):
        for way, run in updating.items():
            found[way].values.append(run(args.updates))
    work = gflop(next(iter(updating.values())).agent)
    print(f"{name}: updates per second of {work:.1f} GFLOP each: median (min–max) of {args.rounds} rounds")
    for way, rates in found.items():
        print(f"  {way:28} {rates!s:26} {work * rates.median / 1e3:6.2f} TFLOP/s")

    if args.envs:
        living = {way.name: EndToEnd(way, args.envs) for way in ways}
        for living_run in living.values():
            living_run(2 * RANDOM_STEPS + 10 * living_run.stride)
        whole = {way: Rounds() for way in living}
        for _ in range(args.rounds):
            for way, living_run in living.items():
                whole[way].values.append(living_run(args.steps))
        print(f"{ENV} end to end, {args.envs} environments, replay ratio 2: environment steps per second")
        for way, rates in whole.items():
            print(f"  {way:28} {rates}")
    if not on_gpu:
        return True
    best = max(rates.median for rates in found.values())
    print(f"at least 1,000 updates/s: {'yes' if best >= 1_000 else 'NO'} ({best:,.0f})")
    return best >= 1_000


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
