"""How fast is PPO where worlds are small? One CartPole as in the preset gym-control, beside Stable-Baselines3.

    OMP_NUM_THREADS=1 python benchmarks/gym_control.py
    OMP_NUM_THREADS=1 python benchmarks/gym_control.py --width 128

The same network (policy and value apart, three layers each), rollouts of 800 steps of one environment, 5 epochs of
minibatches of 32. One process, one thread; the contestants take turns, four rollouts and their updates each, so that
a busy machine slows all of them alike. Beside the times stand the floors: CartPole's own step without wrappers, and
the update's matrix products and Adam's steps at the machine's own rate.
"""

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
from supple.agents.presets import GYM_CONTROL

STEPS = 3_200  # environment steps in one turn
PARTS = ("environment", "acting", "storing", "updating")


@dataclass(frozen=True)
class Args(Options):
    width: int = 256  # of the hidden layers: 256 is C-CHAIN's, 128 TRAC's
    rounds: int = 7  # timed turns of each contestant, after one that is not timed


class Ours:
    """The agent and its environment, stepped as in training; times its parts."""

    def __init__(self, mode: str, width: int) -> None:
        settings = PPOSettings(**{**GYM_CONTROL, "hidden": (width,) * 3, "compile": mode})
        self.run = SteppedAgent("ppo", settings)
        self.parts: dict[str, Rounds] = {name: Rounds() for name in PARTS}

    def __call__(self) -> None:
        record(self.parts, self.run.live(STEPS), 1e6 / STEPS)


def sb3(width: int) -> Callable[[], object]:
    """Return a turn of Stable-Baselines3's PPO with the preset's settings, as far as it has them: it normalises
    advantages in each minibatch, takes GAE's targets for the value, and lets episodes go on between rollouts."""
    from stable_baselines3 import PPO as Peer

    s = PPOSettings(**GYM_CONTROL)
    network = {
        "net_arch": {"pi": [width] * 3, "vf": [width] * 3},
        "activation_fn": lambda: torch.nn.LeakyReLU(0.1),
        "ortho_init": False,
    }
    env = gym.make(str(s.env), max_episode_steps=s.max_episode_steps)
    model = Peer(
        "MlpPolicy", env, s.learning_rate, s.rollout_steps, s.minibatch_size, s.epochs, s.gamma, s.gae_lambda,
        ent_coef=s.entropy_coefficient, max_grad_norm=1e9, policy_kwargs=network, seed=0, device="cpu",
    )  # fmt: skip
    return lambda: model.learn(STEPS, reset_num_timesteps=False)


def simulator() -> Callable[[], None]:
    """Return the floor of the environment: CartPole's own step, no wrapper at all."""
    env = gym.make("CartPole-v1", disable_env_checker=True).unwrapped
    env.reset(seed=0)

    def run() -> None:
        for step in range(STEPS):
            if env.step(step % 2)[2]:
                env.reset()

    return run


def arithmetic(width: int) -> Callable[[], None]:
    """Return the floor of the update: its matrix products, in the shapes that they have, and Adam's steps."""
    s = PPOSettings(**GYM_CONTROL)
    n = s.minibatch_size
    shapes: list[tuple[int, int, int]] = []
    weights: list[Any] = []
    for out in (2, 1):
        for d_in, d_out in ((4, width), (width, width), (width, width), (width, out)):
            weights.append(torch.randn(d_out, d_in, requires_grad=True))
            shapes += [(n, d_in, d_out), (d_out, n, d_in)]  # forward; gradient of the weights
            if d_in != 4:
                shapes.append((n, d_out, d_in))  # gradient of the input
    operands = [(torch.randn(m, k), torch.randn(k, p), torch.empty(m, p)) for m, k, p in shapes]
    optimizer = torch.optim.Adam(weights, fused=True)
    for weight in weights:
        weight.grad = torch.randn_like(weight)

    def run() -> None:
        for _ in range(s.epochs * STEPS // n):
            for a, b, out in operands:
                torch.mm(a, b, out=out)
            optimizer.step()

    return run


def main(args: Args) -> bool:
    begin(1, args.flush)
    ours = {"supple, eager": Ours("off", args.width), "supple, compiled": Ours("on", args.width)}
    floors = {"environment": simulator(), "updating": arithmetic(args.width)}
    contestants: dict[str, Callable[[], object]] = {"Stable-Baselines3": sb3(args.width), **ours, **floors}
    first = {name: seconds(call) for name, call in contestants.items()}
    times = {name: Rounds() for name in contestants}  # µs per environment step
    for contestant in ours.values():
        contestant.parts = {name: Rounds() for name in PARTS}
    for _ in range(args.rounds):
        for name, call in contestants.items():
            times[name].values.append(1e6 * seconds(call) / STEPS)

    console = Console(width=110)
    peer = times["Stable-Baselines3"].median
    table = Table("PPO", "µs/step: median (min–max)", "steps/s", "× SB3", "first turn: extra")
    table.title = f"PPO on one CartPole, width {args.width}, one thread, {args.rounds} rounds"
    for name in ("Stable-Baselines3", *ours):
        t = times[name]
        extra = first[name] - t.median * STEPS / 1e6
        table.add_row(name, str(t), f"{1e6 / t.median:,.0f}", f"{peer / t.median:.2f}", f"{extra:.1f} s")
    console.print(table)
    table = Table("part", *ours, "floor", title="Where our time goes: µs per environment step, median (min–max)")
    for part in PARTS:
        table.add_row(part, *(str(o.parts[part]) for o in ours.values()), str(times[part]) if part in floors else "")
    console.print(table)
    ratio = peer / times["supple, compiled"].median
    console.print(f"at least 3 × Stable-Baselines3: {'yes' if ratio >= 3 else 'NO'} ({ratio:.2f})")
    return ratio >= 3


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
