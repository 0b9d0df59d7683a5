"""How much does an h1 task cost above MuJoCo itself? Beside a bare `mj_step(nstep=10)` on the same model.

    OMP_NUM_THREADS=1 python benchmarks/humanoid_speed.py
    OMP_NUM_THREADS=1 python benchmarks/humanoid_speed.py --env h1-maze --actions random

One thread; rendering off. The contestants take turns, each from the same start with the same actions, so that all of
them compute the same trajectory and a busy machine slows all alike; it is CPU time that counts. Criterion: at least
1,100 control steps per second.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import mujoco
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from supple.envs import make_env


@dataclass(frozen=True)
class Args:
    env: str = "h1-walk"  # the task
    actions: Literal["stand", "random"] = "stand"  # the keyframe's pose with a little noise, or uniform noise
    rounds: int = 25  # turns of each contestant
    steps: int = 200  # control steps of a turn


def draw_actions(model: Any, args: Args) -> np.ndarray:
    """Return random actions, (steps, 19), float32."""
    generator = np.random.default_rng(0)
    if args.actions == "random":
        return generator.uniform(-1, 1, (args.steps, model.nu)).astype(np.float32)
    low, high = model.actuator_ctrlrange.T
    pose = 2 * (model.key_qpos[0][7:26] - low) / (high - low) - 1
    return (pose + 0.05 * generator.standard_normal((args.steps, model.nu))).astype(np.float32)


def main(args: Args) -> bool:
    env = make_env(args.env)
    inner = env.unwrapped
    model, data = inner.model, inner.data
    actions = draw_actions(model, args)
    low, high = model.actuator_ctrlrange.T
    controls = low + (actions.clip(-1, 1) + 1) / 2 * (high - low)

    def bare() -> None:
        for control in controls:
            data.ctrl[:] = control
            mujoco.mj_step(model, data, nstep=inner.frame_skip)

    def task() -> None:
        for action in actions:
            inner.step(action)

    def stack() -> None:
        for action in actions:
            env.step(action)

    contestants: dict[str, Callable[[], None]] = {
        "MuJoCo alone": bare,
        "the task": task,
        "with make_env's wrappers": stack,
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for round_ in range(args.rounds + 1):
        for name, contestant in contestants.items():
            env.reset(seed=round_)
            start = time.process_time()
            contestant()
            if round_:  # the first is not counted
                seconds[name].append((time.process_time() - start) / args.steps)

    table = Table(title=f"{args.env}, {args.actions} actions, one thread, {args.rounds} turns of {args.steps} steps")
    columns = ("", "control steps/s: median (min–max)", "µs", "above MuJoCo: µs", "%")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    floor = seconds["MuJoCo alone"]
    for name, times in seconds.items():
        middle = statistics.median(times)
        extra = statistics.median(t - f for t, f in zip(times, floor, strict=True))
        rate = f"{1 / middle:,.0f} ({1 / max(times):,.0f}–{1 / min(times):,.0f})"
        table.add_row(
            name, rate, f"{1e6 * middle:.0f}", f"{1e6 * extra:.0f}", f"{extra / statistics.median(floor):.1%}"
        )
    console = Console(width=110)
    console.print(table)
    rate = 1 / statistics.median(seconds["with make_env's wrappers"])
    console.print(f"at least 1,100 control steps/s: {'yes' if rate >= 1100 else 'NO'} ({rate:,.0f})")
    return rate >= 1100


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
