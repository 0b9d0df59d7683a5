"""How fast is PPO? Side by side with Stable-Baselines3, the same settings: SB3's defaults, eight HalfCheetahs.

    OMP_NUM_THREADS=1 python benchmarks/ppo_speed.py

One process, one thread; the contestants take turns, a whole iteration each (8 × 2048 steps and the update that
follows), so that a busy machine slows all of them alike. Prints (a) environment steps per second, (b) where our
time goes, beside the floor: the bare simulator, and the update's multiplications at the machine's own rate,
(c) what FIRE costs beside 50,000 steps of training. Denormal numbers are taken for zero by all, as our training does;
`--no-flush` is the other reading.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
import tyro
from rich.console import Console
from rich.table import Table
from stepped import SteppedAgent, record
from timing import Options, Rounds, begin, seconds

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.envs.make import quiet_mujoco
from supple.interventions.isometry import fire_

ENV, ENVS, ROLLOUT = "HalfCheetah-v5", 8, 2048
STEPS = ENVS * ROLLOUT  # environment steps in one iteration
SPACES = {ENV: PolicySpace(17, Gaussian(6))}
PARTS = ("environment", "acting", "storing", "updating")
SB3_SETTINGS: dict[str, Any] = {  # Stable-Baselines3's defaults in our words
    "rollout_steps": ROLLOUT, "epochs": 10, "minibatch_size": 64, "learning_rate": 3e-4, "adapter": 0,
    "hidden": (64, 64), "share_value": False, "clip_value": False, "normalize_observations": False,
    "normalize_rewards": False,
}  # fmt: skip


@dataclass(frozen=True)
class Args(Options):
    rounds: int = 5  # timed iterations of each contestant, after one that is not timed
    compile: bool = True  # off: leave the compiled contestant out


class Times(Rounds):
    """Seconds per iteration."""

    def per_step(self) -> str:
        """Return µs per environment step."""
        low, middle, high = (1e6 * t / STEPS for t in (min(self.values), self.median, max(self.values)))
        return f"{middle:.1f} ({low:.1f}–{high:.1f})"

    def rate(self) -> str:
        """Return environment steps per second."""
        low, middle, high = (STEPS / t for t in (max(self.values), self.median, min(self.values)))
        return f"{middle:,.0f} ({low:,.0f}–{high:,.0f})"


class Ours:
    """The agent and its environments, stepped as in training; times its parts."""

    def __init__(self, mode: str) -> None:
        settings = PPOSettings(env=ENV, steps=STEPS, num_envs=ENVS, compile=mode, **SB3_SETTINGS)
        self.run = SteppedAgent("ppo", settings)
        self.parts: dict[str, Times] = {name: Times() for name in PARTS}

    def __call__(self) -> None:
        record(self.parts, self.run.live(STEPS), 1.0)


def sb3(seed: int = 0) -> Callable[[], object]:
    """Return Stable-Baselines3's PPO as its documentation sets it up: `make_vec_env`, which is a DummyVecEnv of
    monitored environments."""
    from stable_baselines3 import PPO as Peer
    from stable_baselines3.common.env_util import make_vec_env

    model = Peer("MlpPolicy", make_vec_env(ENV, ENVS, seed=seed), seed=seed)
    return lambda: model.learn(STEPS, reset_num_timesteps=False)


def simulator() -> Callable[[], None]:
    """Return the floor of the environments: MuJoCo's own step without a wrapper, for an iteration's steps."""
    envs = [gym.make(ENV, disable_env_checker=True).unwrapped for _ in range(ENVS)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    generator = torch.Generator().manual_seed(0)
    actions = (2 * torch.rand(ROLLOUT, ENVS, SPACES[ENV].policy.outputs, generator=generator) - 1).numpy()

    def run() -> None:
        for row in actions:
            for env, action in zip(envs, row, strict=True):
                env.step(action)

    return run


def products() -> Callable[[], None]:
    """Return the floor of the update: the matrix products of one iteration, in the shapes that they have."""
    observation, action = SPACES[ENV].observation, SPACES[ENV].policy.outputs
    n, w = SB3_SETTINGS["minibatch_size"], SB3_SETTINGS["hidden"][0]
    shapes: list[tuple[int, int, int]] = []
    for out in (action, 1):
        for d_in, d_out in ((observation, w), (w, w), (w, out)):
            shapes += [(n, d_in, d_out), (d_out, n, d_in)]  # forward; gradient of the weights
            if d_in != observation:
                shapes.append((n, d_out, d_in))  # gradient of the input
    operands = [(torch.randn(m, k), torch.randn(k, p), torch.empty(m, p)) for m, k, p in shapes]

    def run() -> None:
        for _ in range(SB3_SETTINGS["epochs"] * STEPS // n):
            for a, b, out in operands:
                torch.mm(a, b, out=out)

    return run


def time_fire(repeats: int = 30) -> float:
    """Return the median seconds of FIRE on a three-layer agent network: adapter and body of 256, two heads."""
    net = MultiHead(SPACES, (256, 256), 256, "tanh", True, torch.Generator().manual_seed(0))
    return statistics.median(seconds(lambda: fire_(net)) for _ in range(repeats))


def make_table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    return table


def main(args: Args) -> bool:
    begin(1, args.flush)
    gym.logger.min_level = gym.logger.ERROR
    quiet_mujoco()
    ours = {"supple, eager": Ours("off")}
    if args.compile:
        ours["supple, compiled"] = Ours("on")
    floors = {"environment": simulator(), "updating": products()}
    contestants: dict[str, Callable[[], object]] = {"Stable-Baselines3": sb3(), **ours, **floors}
    first = {name: seconds(call) for name, call in contestants.items()}
    times = {name: Times() for name in contestants}
    for contestant in ours.values():
        contestant.parts = {name: Times() for name in contestant.parts}
    for _ in range(args.rounds):
        for name, call in contestants.items():
            times[name].values.append(seconds(call))

    console = Console(width=110)
    peer = times["Stable-Baselines3"].median
    columns = ("PPO", "steps/s: median (min–max)", "µs/step", "× SB3", "first iteration: extra")
    table = make_table(f"PPO on {ENVS} × {ENV}, SB3's default settings, one thread, {args.rounds} rounds", *columns)
    for name in ("Stable-Baselines3", *ours):
        extra = first[name] - times[name].median
        t = times[name]
        table.add_row(name, t.rate(), f"{1e6 * t.median / STEPS:.0f}", f"{peer / t.median:.2f}", f"{extra:.1f} s")
    console.print(table)

    table = make_table("Where our time goes: µs per environment step, median (min–max)", "part", *ours, "floor")
    for part in PARTS:
        floor = times[part].per_step() if part in floors else ""
        table.add_row(part, *(o.parts[part].per_step() for o in ours.values()), floor)
    console.print(table)
    console.print("Floor of the environment: MuJoCo's step alone; of the update: its matrix products alone.")

    best = list(ours)[-1]
    fire, training = time_fire(), 50_000 * times[best].median / STEPS
    console.print(
        f"FIRE on a network of 3 layers (256 wide) and 2 heads: {1e3 * fire:.1f} ms, {fire / training:.2%} "
        f"of 50,000 steps of training ({best}: {training:.1f} s)"
    )
    ratio = peer / times[best].median
    console.print(f"at least 3 × Stable-Baselines3: {'yes' if ratio >= 3 else 'NO'} ({ratio:.2f})")
    return ratio >= 3


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
