"""What does a control step of a MuJoCo task cost beside its physics? Copies one by one and together, taking turns.

    OMP_NUM_THREADS=1 python benchmarks/physics_speed.py

Random actions, no agent. The floor is MuJoCo's `mj_step` alone, in this thread, for the same copies; beside it
MuJoCo's own `rollout` (the same arithmetic on states that are passed in, with arrays made beforehand, no checks and
copies / threads to a chunk), which cannot take the place of `mj_step`: it does not return the warm start of the
constraint solver. Prints µs of one control step of one copy, as medians of the rounds, and the ratio to stepping one
by one within a round: median (quartiles). `--cpu` counts this process's CPU time on all its threads, which a busy
machine changes less than what the clock on the wall says. `--ppo` has PPO take turns instead: eight HalfCheetahs, SB3's
settings, environment steps per second, with one thread of PyTorch.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import numpy as np
import torch
import tyro
from ppo_speed import ENV, ENVS, SB3_SETTINGS
from rich.console import Console
from rich.table import Table
from stepped import SteppedAgent
from timing import begin, seconds

from supple.agents.ppo import PPOSettings
from supple.envs import Vector, make_env, side_by_side
from supple.envs.physics_tasks import TASKS

SINGLE = "one by one"


@dataclass(frozen=True)
class Args:
    envs: tuple[str, ...] = tuple(TASKS)
    copies: int = 8
    threads: tuple[int, ...] = (1, 2)
    rounds: int = 60
    steps: int = 25  # of all copies, in a turn
    cpu: bool = False
    ppo: bool = False
    compile: bool = True  # with --ppo: off for eager updates
    ppo_steps: int = 16_384  # with --ppo: of all copies, in a turn


def time_stepping(envs: Vector) -> Callable[[np.ndarray], object]:
    envs.reset(range(envs.num_envs))
    return envs.step


def physics(env: str, copies: int) -> Callable[[np.ndarray], None]:
    """Return the floor: `mj_step` alone; episodes begin anew after 100 steps, as they do elsewhere sooner or later."""
    import mujoco

    made: list[Any] = [make_env(env).unwrapped for _ in range(copies)]
    count = 0

    def step(actions: np.ndarray) -> None:
        nonlocal count
        if count % 100 == 0:
            for one in made:
                one.reset(seed=count)
        count += 1
        for one, action in zip(made, actions, strict=True):
            one.data.ctrl[:] = action
            mujoco.mj_step(one.model, one.data, one.frame_skip)

    return step


def rollout(env: str, copies: int, threads: int) -> Callable[[np.ndarray], None]:
    """Return MuJoCo's `rollout` of one control step, from the states that the step before led to."""
    import mujoco
    from mujoco.rollout import Rollout

    made: list[Any] = [make_env(env).unwrapped for _ in range(copies)]
    models = [one.model for one in made]
    workers = [mujoco.MjData(models[0]) for _ in range(threads)]
    pool = Rollout(nthread=0 if threads == 1 else threads)
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS
    model, substeps = models[0], made[0].frame_skip
    state, warm = np.empty((copies, mujoco.mj_stateSize(model, full))), np.zeros((copies, model.nv))
    states, controls = np.empty((copies, substeps, state.shape[1])), np.empty((copies, substeps, model.nu))
    count = 0

    def step(actions: np.ndarray) -> None:
        nonlocal count
        if count % 100 == 0:
            for one, row in zip(made, state, strict=True):
                one.reset(seed=count)
                mujoco.mj_getState(one.model, one.data, row, full)
        count += 1
        controls[:] = actions[:, None]
        pool.rollout(
            models, workers, state, controls, skip_checks=True, nstep=substeps, initial_warmstart=warm, state=states,
            chunk_size=-(-copies // threads),
        )  # fmt: skip
        state[:] = states[:, -1]

    return step


def make_contestants(env: str, args: Args) -> dict[str, Callable[[np.ndarray], object]]:
    found: dict[str, Callable[[np.ndarray], object]] = {
        SINGLE: time_stepping(Vector(lambda: make_env(env), args.copies)),
        "mj_step": physics(env, args.copies),
    }
    for threads in args.threads:
        found[f"rollout, {threads}"] = rollout(env, args.copies, threads)
    for threads in args.threads:
        found[f"together, {threads}"] = time_stepping(side_by_side(lambda: make_env(env), args.copies, threads=threads))
    return found


def ratios(values: list[float], whole: list[float]) -> str:
    """Return the median, and the quartiles, of the ratios within rounds."""
    low, middle, high = quantiles([value / one for value, one in zip(values, whole, strict=True)], n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def tasks(args: Args, console: Console) -> None:
    table: Table | None = None
    for env in args.envs:
        found = make_contestants(env, args)
        if table is None:
            table = Table(
                title=f"{'CPU ' * args.cpu}µs a control step of each of {args.copies} copies; {args.rounds} rounds"
            )
            for column in ("environment", *found):
                table.add_column(column, justify="left" if column == "environment" else "right")
        space: Any = make_env(env).action_space
        draws = np.random.default_rng(0)
        shape = (args.steps, args.copies, *space.shape)
        clock = time.process_time if args.cpu else time.perf_counter
        actions = draws.uniform(space.low, space.high, shape).astype(np.float32)
        times: dict[str, list[float]] = {name: [] for name in found}
        for _ in range(args.rounds):
            for name, step in found.items():
                taken = seconds(lambda step=step, rows=actions: [step(row) for row in rows], clock)  # type: ignore[misc]
                times[name].append(1e6 * taken / args.steps / args.copies)
        cells = []
        for name, values in times.items():
            cells.append(f"{median(values):.1f}" + ("" if name == SINGLE else f"\n{ratios(values, times[SINGLE])}"))
        table.add_row(env, *cells)
        print(
            env, {name: (round(median(values), 1), round(min(values), 1)) for name, values in times.items()}, flush=True
        )
    if table is not None:
        console.print(table)


def ppo(args: Args, console: Console) -> None:
    runs = {}
    for name, physics, threads in ((SINGLE, "single", 1), *((f"together, {n}", "batched", n) for n in args.threads)):
        settings = PPOSettings(
            env=ENV, steps=args.ppo_steps, num_envs=ENVS, physics=physics, env_threads=threads,  # type: ignore[arg-type]
            compile="on" if args.compile else "off", **SB3_SETTINGS,
        )  # fmt: skip
        runs[name] = SteppedAgent("ppo", settings)
    torch.set_num_threads(1)  # of PyTorch, whatever those of the physics
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(args.rounds + 1):
        for name, run in runs.items():
            taken = seconds(lambda run=run: run.live(args.ppo_steps))  # type: ignore[misc]
            if number:
                times[name].append(taken)
    table = Table(title=f"PPO on {ENVS} × {ENV}, SB3's settings, {args.rounds} rounds of {args.ppo_steps:,} steps")
    for column in ("copies, threads of their physics", "steps/s", "× one by one"):
        table.add_column(column, justify="right")
    for name, values in times.items():
        table.add_row(name, f"{args.ppo_steps / median(values):,.0f}", ratios(times[SINGLE], values))
    console.print(table)


def main(args: Args) -> None:
    begin(1)
    (ppo if args.ppo else tasks)(args, Console(width=130))


if __name__ == "__main__":
    main(tyro.cli(Args))
