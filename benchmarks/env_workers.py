"""When do environments in processes of their own pay? Copies stepped here, in one worker and in two, taking turns.

    OMP_NUM_THREADS=1 python benchmarks/env_workers.py

Random actions, no agent: what is timed is the step of all copies, as the training loop calls it. Each contestant's
processes wait while another has its turn. Prints the time of one step of all copies, its ratio to stepping them here in
the same round, and the CPU time that this process spends on it (with workers: on messages), which a busy machine does
not change much; each as median (least–greatest) of the rounds.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from timing import Rounds

from supple.envs import Envs, EnvWorkers, Vector, WorkerVector, flatten, make_env, make_pixels, resolve_env


@dataclass(frozen=True)
class Args:
    envs: tuple[str, ...] = ("cartpole", "halfcheetah", "humanoid", "asterix")  # h1-walk too, where its files are
    copies: tuple[int, ...] = (1, 8)
    workers: tuple[int, ...] = (0, 1, 2)  # 0, to which the others are compared, must be among them
    rounds: int = 15
    seconds: float = 0.3  # of each contestant's turn


def make_copies(env: str, copies: int) -> Envs:
    """Return copies of an environment: images for Atari, vectors for all others."""
    if resolve_env(env).startswith("ALE/"):
        return make_pixels(env, copies)
    return Vector(lambda: flatten(make_env(env)), copies)


def make_contestant(env: str, copies: int, workers: EnvWorkers | None) -> Callable[[float], tuple[float, float]]:
    """Return a function that steps all copies for some seconds, and returns the microseconds of one step: those that
    went by, and those of this process."""
    make = partial(make_copies, env)
    envs = make(copies) if workers is None else WorkerVector(workers, resolve_env(env), make, copies)
    envs.reset(range(copies))
    space = envs.single_action_space
    space.seed(0)
    actions = [np.stack([space.sample() for _ in range(copies)]) for _ in range(64)]

    def turn(seconds: float) -> tuple[float, float]:
        steps, begin, own = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < seconds:
            envs.step(actions[steps % len(actions)])
            steps += 1
        return 1e6 * (time.perf_counter() - begin) / steps, 1e6 * (time.process_time() - own) / steps

    return turn


def main(args: Args) -> None:
    table = Table(title=f"One step of all copies, µs; {args.rounds} rounds")
    for column in ("environment", "copies", "workers", "µs", "workers / none", "own µs of CPU"):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for env in args.envs:
        for copies in args.copies:
            with ExitStack() as stack:
                turns = {}
                for count in (count for count in args.workers if count <= copies):
                    workers = EnvWorkers(count, int) if count else None
                    if workers:
                        stack.callback(workers.close)
                    turns[count] = make_contestant(env, copies, workers)
                times, ratios, own = ({count: Rounds(digits) for count in turns} for digits in (0, 2, 0))
                for _ in range(args.rounds):
                    taken = {count: turn(args.seconds) for count, turn in turns.items()}
                    for count, (wall, cpu) in taken.items():
                        times[count].values.append(wall)
                        ratios[count].values.append(wall / taken[0][0])
                        own[count].values.append(cpu)
            for count in turns:
                ratio = str(ratios[count]) if count else ""
                table.add_row(env, str(copies), str(count), str(times[count]), ratio, str(own[count]))
    Console(width=110).print(table)


if __name__ == "__main__":
    main(tyro.cli(Args))
