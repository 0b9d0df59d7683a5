"""DQN on Asterix beside Stable-Baselines3's, and where our time goes.

    python benchmarks/dqn_speed.py [--threads 2] [--rounds 5] [--updates 100] [--no-flush]

Both learn with the Nature CNN, batches of 32 and a gradient step every 4 environment steps (replay ratio 0.25);
SB3 as its documentation sets Atari up: `make_atari_env`, `AtariWrapper`, 4 stacked frames, `CnnPolicy`. Environments:
one in SB3 and 8 in ours; SB3 with 8 is shown beside. The floor is the time of the convolutions and linear layers
alone, on the same batch. Ours and theirs take turns; medians of the rounds, with the smallest and largest. Denormal
numbers are taken for zero in both, as our training does; `--no-flush` is the other reading.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import tyro
from stepped import SteppedAgent, record
from timing import Options, Rounds, begin, matmul_rate, seconds

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN, Pixels
from supple.envs.make import import_ale

ENV, ENVS = "ALE/Asterix-v5", 8
WARM_UP = 2_000  # environment steps before anything is measured; fills the memory that batches come from


@dataclass(frozen=True)
class Args(Options):
    threads: int = 2  # of PyTorch, in both, and of our emulators
    rounds: int = 5  # turns of each
    updates: int = 100  # gradient steps in one measurement


class Ours:
    """The agent and its environments, stepped as in training; times its parts."""

    def __init__(self, threads: int, learning: bool, **own: Any) -> None:
        settings = DQNSettings(
            env=ENV,
            steps=10**10,
            num_envs=ENVS,
            threads=threads,
            env_threads=threads,
            device="cpu",
            replay_ratio=0.25,
            replay_size=50_000,
            learning_starts=0 if learning else 10**9,
            **own,
        )
        self.run = SteppedAgent("dqn", settings)
        self.parts = {name: Rounds() for name in ("acting", "environment", "storing", "sampling", "updating")}

    def __call__(self, steps: int) -> float:
        """Return environment steps per second, and parts in milliseconds per gradient step (4 environment steps)."""
        taken = seconds(lambda: record(self.parts, self.run.live(steps), 1e3 / (steps / 4)))
        return steps / taken


class Peer:
    """Stable-Baselines3's DQN in its own loop."""

    def __init__(self, envs: int, learning: bool) -> None:
        from stable_baselines3 import DQN as SB3
        from stable_baselines3.common.env_util import make_atari_env
        from stable_baselines3.common.vec_env import VecFrameStack

        import_ale()  # registers the games
        venv = VecFrameStack(make_atari_env(ENV, envs, seed=0, env_kwargs={"frameskip": 1}), 4)
        self.model = SB3(
            "CnnPolicy",
            venv,
            batch_size=32,
            buffer_size=20_000,
            learning_starts=0 if learning else 10**9,
            train_freq=4 if envs == 1 else 1,
            gradient_steps=max(1, envs // 4),
            seed=0,
            device="cpu",
        )

    def __call__(self, steps: int) -> float:
        return steps / seconds(lambda: self.model.learn(steps, reset_num_timesteps=False))


def floor(agent: DQN) -> Callable[[], float]:
    """Return the milliseconds of a gradient step's networks: forward and backward, and the target's forward."""
    network, target = agent.network, agent.target
    frames = torch.randint(0, 256, (32, 4, 84, 84), dtype=torch.uint8)
    x = frames.contiguous(memory_format=torch.channels_last).float()
    parameters = list(network.parameters())

    def passes() -> None:
        torch.autograd.grad(network.mlp(network.encoder(x)).sum(), parameters)
        with torch.no_grad():
            target.mlp(target.encoder(x))

    return lambda: 1e3 * median(seconds(passes) for _ in range(20))


def adam(agent: DQN) -> float:
    return 1e3 * median(seconds(agent.optimizer.step) for _ in range(20))


def operations(pixels: Pixels) -> float:
    """Return the GFLOP of one gradient step on 32 transitions: 2 forward passes, backward without the input."""
    from supple.agents.dqn.network import CONVOLUTIONS

    channels, side, products = pixels.stack, pixels.height, []
    for out, kernel, stride in CONVOLUTIONS:
        side = (side - kernel) // stride + 1
        products.append(out * channels * kernel * kernel * side * side)
        channels = out
    products += [channels * side * side * 512, 512 * pixels.actions]
    return 32 * 2 * (4 * sum(products) - products[0]) / 1e9


def main(args: Args) -> None:
    begin(args.threads, args.flush)
    threads, rounds, updates = args.threads, args.rounds, args.updates
    steps = 4 * updates
    runs: dict[str, tuple[Callable[[int], float], int]] = {
        "learning: supple, 8 envs": (Ours(threads, True), steps),
        "learning: SB3, 1 env": (Peer(1, True), steps),
        "learning: SB3, 8 envs": (Peer(ENVS, True), steps),
        "playing: supple, 8 envs": (Ours(threads, False), 20 * steps),
        "playing: SB3, 1 env": (Peer(1, False), 5 * steps),
        "playing: SB3, 8 envs": (Peer(ENVS, False), 5 * steps),
    }
    ours = runs["learning: supple, 8 envs"][0]
    assert isinstance(ours, Ours)
    agent = ours.run.agent
    found = {name: Rounds() for name in runs}
    alone, optimizer, rate = Rounds(), Rounds(), Rounds()
    network = floor(agent)
    for run, count in runs.values():
        run(min(count, WARM_UP))
    for part in ours.parts.values():
        part.values.clear()
    for _ in range(rounds):
        for name, (run, count) in runs.items():
            found[name].values.append(run(count))
        alone.values.append(network())
        optimizer.values.append(adam(agent))
        rate.values.append(matmul_rate(repeats=5))
    print(f"{threads} threads, {rounds} rounds in turn; environment steps per second: median (min–max)")
    for name, values in found.items():
        print(f"  {name:28} {values}")
    for kind in ("learning", "playing"):
        own = found[f"{kind}: supple, 8 envs"].median
        for envs in ("1 env", "8 envs"):
            print(f"  {kind}: {own / found[f'{kind}: SB3, {envs}'].median:.2f} × SB3 with {envs}")
    print("milliseconds per gradient step (and its 4 environment steps), supple")
    for name, values in ours.parts.items():
        print(f"  {name:28} {values}")
    print(f"  {'  of which Adam':28} {optimizer}")
    print(f"  {'network alone (floor)':28} {alone}")
    gflop = operations(agent.pixels)
    print(f"  arithmetic alone: {gflop:.2f} GFLOP at {rate.median:.0f} GFLOP/s: {1e3 * gflop / rate.median:.1f} ms")
    step = ours.parts["updating"].median
    print(f"  updating / network alone: {step / alone.median:.2f}")


if __name__ == "__main__":
    main(tyro.cli(Args))
