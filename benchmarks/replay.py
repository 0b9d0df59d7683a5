"""How fast and how large is the replay memory? Beside its floor, and beside Stable-Baselines3's.

    python benchmarks/replay.py --threads 1
    python benchmarks/replay.py --threads 1 --what vectors --sizes 256 512

Fills a memory of `--capacity` transitions, then times samples from it: Atari's 84×84×4 images (7.1 GB for a million)
or the vectors of HumanoidBench's h1, 51 numbers seen and 19 done (0.3 GB). The floor of a sample is the time to copy
its frames once, at the rate of one long copy on this machine; small vectors from rows far apart stay far from it.
Stable-Baselines3's buffer is filled as far as fits into `--sb3-capacity`; its size grows in proportion, and its
sampling does not get faster. All times are medians; noise is the distance between the quartiles over the median.
"""

import statistics
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from timing import Timing, begin, measure

from supple.agents.offpolicy.replay import ReplayLayout, ReplayMemory, bytes_needed, check_memory

WARM = 20  # samples that are not timed
LAYOUTS = {
    "images": ReplayLayout((84, 84), np.uint8, stack=4),
    "vectors": ReplayLayout((51,), np.float32, action=(19,)),
}


@dataclass(frozen=True)
class Args:
    what: Literal["images", "vectors"] = "images"  # what the transitions are of
    capacity: int = 1_000_000  # transitions
    num_envs: int = 8  # environments that fill it
    sizes: tuple[int, ...] = (32, 128)  # transitions in a sample
    repeats: int = 1000  # timed samples of each line, after a few that are not timed
    sb3_capacity: int = 20_000  # transitions in Stable-Baselines3's buffer: 1.1 GB
    threads: int = 1  # threads of torch
    folder: Path | None = None  # keep the images in a file here instead of in RAM


def format_bytes(timing: Timing) -> str:
    return f"{1e6 * timing.seconds:,.0f} µs ± {timing.noise:.0%}"


def copy_rate() -> float:
    """Return the bytes copied per second, by one thread, in one piece that no cache holds."""
    source, target = np.ones(2**28, np.uint8), np.ones(2**28, np.uint8)
    return source.nbytes / measure(lambda: np.copyto(target, source), 15, warm=2).seconds


def fill(memory: ReplayMemory, num_envs: int, steps: int) -> Timing:
    """Write every frame, so that every page is taken. An episode ends every 500 steps, one in ten by truncation."""
    rng, layout = np.random.default_rng(0), memory.layout
    observations = rng.integers(0, 256, (16, num_envs, *layout.observation), np.uint8).astype(layout.dtype)
    actions = rng.integers(0, 18, (num_envs, *layout.action)).astype(layout.row["action"].base)
    rewards = rng.normal(size=num_envs)
    memory.begin(observations[0])
    times = []
    for step in range(steps):
        ended = rng.random(num_envs) < 1 / 500
        truncated = ended & (rng.random(num_envs) < 0.1)
        obs = observations[step % 16]
        start = time.perf_counter()
        memory.add(actions, rewards, ended & ~truncated, truncated, obs, obs)
        times.append(time.perf_counter() - start)
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return Timing(median, (high - low) / median)


def sb3(
    layout: ReplayLayout, capacity: int, sizes: tuple[int, ...], repeats: int
) -> tuple[dict[bool, float], dict[int, Timing]]:
    """Return the bytes per transition without and with `optimize_memory_usage`, and the time to sample without."""
    from stable_baselines3.common.buffers import ReplayBuffer

    seen = gym.spaces.Box(0, 255, layout.observation, layout.row["frame"].base.type)
    done = gym.spaces.Box(-1, 1, layout.action) if layout.action else gym.spaces.Discrete(18)

    def buffer(rows: int, optimize: bool) -> ReplayBuffer:
        return ReplayBuffer(
            rows, seen, done, "cpu", optimize_memory_usage=optimize, handle_timeout_termination=not optimize
        )

    def bytes_of(optimize: bool) -> float:
        return sum(v.nbytes for v in vars(buffer(100, optimize)).values() if isinstance(v, np.ndarray)) / 100

    peer = buffer(capacity, False)
    peer.observations[:], peer.next_observations[:], peer.full = 1, 1, True
    times = {size: measure(partial(peer.sample, size), repeats, WARM) for size in sizes}
    return {optimize: bytes_of(optimize) for optimize in (False, True)}, times


def main(args: Args) -> None:
    begin(args.threads)
    layout = LAYOUTS[args.what]
    needed = bytes_needed(args.capacity, args.num_envs, layout)
    check_memory(needed, args.capacity, args.folder)
    console = Console(width=110)
    rate = copy_rate()
    peer_bytes, peer_times = sb3(layout, args.sb3_capacity, args.sizes, args.repeats)

    memory = ReplayMemory(args.capacity, args.num_envs, layout, args.folder)
    adding = fill(memory, args.num_envs, memory.rows)
    generator = torch.Generator().manual_seed(0)
    table = Table(title=f"Samples from {len(memory):,} transitions of {args.what}, {args.threads} thread(s)")
    for column in ("transitions", "time", "floor", "of floor", "transitions/s", f"SB3 ({args.sb3_capacity:,} stored)"):
        table.add_column(column, justify="right")
    for size in args.sizes:
        out = memory.buffer(size)
        timing = measure(partial(memory.sample, size, generator, out), args.repeats, WARM)
        floor = out.nbytes / rate
        table.add_row(
            f"{size}",
            format_bytes(timing),
            f"{1e6 * floor:,.0f} µs",
            f"{floor / timing.seconds:.0%}",
            f"{size / timing.seconds:,.0f}",
            format_bytes(peer_times[size]),
        )
    console.print(table)
    console.print(
        f"Floor: each frame copied once at {rate / 1e9:.1f} GB/s. "
        f"One step of {args.num_envs} environments is stored in {format_bytes(adding)}."
    )

    table = Table(title=f"Memory for {args.capacity:,} transitions")
    for column in ("memory", "GB", "bytes per transition", "frames per transition"):
        table.add_column(column, justify="left" if column == "memory" else "right")
    frame = layout.row["frame"].itemsize
    lines = {"one frame a step: the floor": float(frame), "supple": needed / args.capacity}
    lines |= {"SB3, optimize_memory_usage": peer_bytes[True], "SB3": peer_bytes[False]}
    for name, each in lines.items():
        table.add_row(name, f"{each * args.capacity / 1e9:.2f}", f"{each:,.0f}", f"{each / frame:.2f}")
    console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Args))
