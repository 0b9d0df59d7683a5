"""DQN on Asterix beside Stable-Baselines3's, and where our time goes.

    python benchmarks/dqn_speed.py [--threads 2] [--rounds 5] [--updates 100]

Both learn with the Nature CNN, batches of 32 and a gradient step every 4 environment steps (replay ratio 0.25);
SB3 as its documentation sets Atari up: `make_atari_env`, `AtariWrapper`, 4 stacked frames, `CnnPolicy`. Environments:
one in SB3 and 8 in ours; SB3 with 8 is shown beside. The floor is the time of the convolutions and linear layers
alone, on the same batch. Ours and theirs take turns; medians of the rounds, with the smallest and largest.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import torch
import tyro

from supple.agents.algorithms import ALGORITHMS
from supple.agents.dqn import DQN, DQNSettings, Pixels
from supple.agents.offpolicy.replay import Sample
from supple.experiments.hooks import HookDriver

ENV, ENVS = "ALE/Asterix-v5", 8
NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)
WARM_UP = 2_000  # environment steps before anything is measured; fills the memory that batches come from


@dataclass
class Rounds:
    """What was measured in the rounds, in its own unit."""

    values: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{median(self.values):,.1f} ({min(self.values):,.1f}–{max(self.values):,.1f})"

    @property
    def median(self) -> float:
        return median(self.values)


class Ours:
    """The agent and its environments, stepped as `agents/loop.py` does; times its parts."""

    def __init__(self, threads: int, learning: bool) -> None:
        self.settings = DQNSettings(
            env=ENV,
            steps=10**9,
            num_envs=ENVS,
            threads=threads,
            device="cpu",
            replay_ratio=0.25,
            replay_size=50_000,
            learning_starts=0 if learning else 10**9,
        )
        kind = ALGORITHMS["dqn"]
        self.agent = DQN(self.settings, {ENV: kind.space(self.settings, ENV)})
        self.envs = kind.envs(self.settings, ENV, ENVS)
        self.agent.begin_episodes(self.envs.reset(range(ENVS)))
        self.parts: dict[str, Rounds] = {
            name: Rounds() for name in ("acting", "environment", "storing", "sampling", "gradient step")
        }
        self.sampling = 0.0
        feed = self.agent.experience.feed

        def timed_feed(size: int, generator: torch.Generator) -> Sample:
            begin = time.perf_counter()
            sample = feed(size, generator)
            self.sampling += time.perf_counter() - begin
            return sample

        self.agent.experience.feed = timed_feed  # type: ignore[assignment]

    def __call__(self, steps: int) -> float:
        """Environment steps per second; parts in milliseconds per gradient step (per 4 environment steps)."""
        clock, self.sampling = time.perf_counter, 0.0
        spent = [0.0] * 4
        begin = clock()
        for _ in range(steps // ENVS):
            a = clock()
            actions = self.agent.act()
            b = clock()
            result = self.envs.step(actions)
            c = clock()
            self.agent.remember(result)
            d = clock()
            self.agent.update(NO_HOOKS, last=False)
            for i, seconds in enumerate((b - a, c - b, d - c, clock() - d)):
                spent[i] += seconds
        total = clock() - begin
        acting, environment, storing, update = spent
        for part, seconds in zip(
            self.parts.values(), (acting, environment, storing, self.sampling, update - self.sampling), strict=True
        ):
            part.values.append(1e3 * seconds / (steps / 4))
        return steps / total


class Peer:
    """Stable-Baselines3's DQN in its own loop."""

    def __init__(self, envs: int, learning: bool) -> None:
        from stable_baselines3 import DQN as SB3
        from stable_baselines3.common.env_util import make_atari_env
        from stable_baselines3.common.vec_env import VecFrameStack

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
        begin = time.perf_counter()
        self.model.learn(steps, reset_num_timesteps=False)
        return steps / (time.perf_counter() - begin)


def floor(agent: DQN) -> Callable[[], float]:
    """Milliseconds of the network alone for one gradient step: forward and backward, and the target's forward."""
    network, target = agent.network, agent.target
    frames = torch.randint(0, 256, (32, 4, 84, 84), dtype=torch.uint8)
    x = frames.contiguous(memory_format=torch.channels_last).float()
    parameters = list(network.parameters())

    def measure() -> float:
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            torch.autograd.grad(network.mlp(network.encoder(x)).sum(), parameters)
            with torch.no_grad():
                target.mlp(target.encoder(x))
            times.append(1e3 * (time.perf_counter() - begin))
        return median(times)

    return measure


def adam(agent: DQN) -> float:
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        agent.optimizer.step()
        times.append(1e3 * (time.perf_counter() - begin))
    return median(times)


def operations(pixels: Pixels) -> float:
    """GFLOP of one gradient step on 32 transitions: 2 forward passes, backward without the input's gradient."""
    from supple.agents.dqn.network import CONVOLUTIONS

    channels, side, products = pixels.stack, pixels.height, []
    for out, kernel, stride in CONVOLUTIONS:
        side = (side - kernel) // stride + 1
        products.append(out * channels * kernel * kernel * side * side)
        channels = out
    products += [channels * side * side * 512, 512 * pixels.actions]
    return 32 * 2 * (4 * sum(products) - products[0]) / 1e9


def matmul_rate() -> float:
    """GFLOP/s of a 1024³ product."""
    a = torch.rand(1024, 1024)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - begin)
    return 2 * 1024**3 / median(times) / 1e9


def main(threads: int = 2, rounds: int = 5, updates: int = 100) -> None:
    """threads: of PyTorch, in both, and of our emulators. updates: gradient steps in one measurement."""
    torch.set_num_threads(threads)
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
    found = {name: Rounds() for name in runs}
    alone, optimizer, rate = Rounds(), Rounds(), Rounds()
    network = floor(ours.agent)
    for run, count in runs.values():
        run(min(count, WARM_UP))
    for part in ours.parts.values():
        part.values.clear()
    for _ in range(rounds):
        for name, (run, count) in runs.items():
            found[name].values.append(run(count))
        alone.values.append(network())
        optimizer.values.append(adam(ours.agent))
        rate.values.append(matmul_rate())
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
    gflop = operations(ours.agent.pixels)
    print(f"  arithmetic alone: {gflop:.2f} GFLOP at {rate.median:.0f} GFLOP/s: {1e3 * gflop / rate.median:.1f} ms")
    step = ours.parts["gradient step"].median
    print(f"  gradient step / network alone: {step / alone.median:.2f}")


if __name__ == "__main__":
    tyro.cli(main)
