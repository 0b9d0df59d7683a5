"""How does the time of a step grow with environments, width, depth, batch, seeds and threads, beside its floor?

    python benchmarks/growth.py run               # every point; those in docs/results/growth.json are not repeated
    python benchmarks/growth.py run --kinds ppo sac
    python benchmarks/growth.py show              # the tables, one figure a kind, and what 16 cores would give

From a base, one setting at a time takes other values. Each point is a process of its own: compiled, warmed up, then
`rounds` turns. The floor is what cannot be left out: the simulator's own step (PPO and SAC), and the update's matrix
products alone in their own shapes with Adam's passes over parameters, gradients and slots; for DQN, the network's
forward and backward passes.

16 cores are computed, not measured. What two threads save of a part gives its parallel share p by Amdahl's law,
T(n) = T(1)·(1 − p + p/n). The environments' part is shared by as many cores as there are copies.
"""

import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import torch
import tyro
from timing import begin, seconds

ROOT = Path(__file__).parents[1]
RESULTS, IMAGES = ROOT / "docs" / "results" / "growth.json", ROOT / "docs" / "images"
CORES = 16
Parts = dict[str, float]  # microseconds of a step: "environment", …, and "floor"

BASES: dict[str, dict[str, int]] = {
    "ppo": {"environments": 8, "width": 64, "depth": 2, "batch": 64, "threads": 1},
    "sac": {"environments": 1, "width": 256, "depth": 2, "batch": 256, "threads": 1},
    "dqn": {"environments": 8, "batch": 32, "threads": 1},
    "classifiers": {"seeds": 5, "width": 100, "batch": 16, "threads": 1},
}
VALUES: dict[str, dict[str, tuple[int, ...]]] = {
    "ppo": {
        "environments": (1, 2, 4, 8, 16, 32), "width": (32, 64, 128, 256, 512), "depth": (1, 2, 3, 4),
        "batch": (16, 64, 256, 1024), "threads": (1, 2),
    },
    "sac": {
        "environments": (1, 2, 4, 8), "width": (128, 256, 512), "depth": (1, 2, 3), "batch": (64, 256, 1024),
        "threads": (1, 2),
    },
    "dqn": {"environments": (1, 4, 8, 16), "batch": (16, 32, 64, 128), "threads": (1, 2)},
    "classifiers": {
        "seeds": (1, 2, 5, 10, 20), "width": (50, 100, 200, 400), "batch": (4, 16, 64), "threads": (1, 2),
    },
}  # fmt: skip
UNITS = {"ppo": "environment step", "sac": "environment step", "dqn": "environment step", "classifiers": "update"}


@dataclass(frozen=True)
class Point:
    kind: str
    environments: int = 1
    width: int = 0
    depth: int = 0
    batch: int = 0
    seeds: int = 1
    threads: int = 1


@dataclass
class Options:
    what: Annotated[Literal["run", "show"], tyro.conf.Positional]
    kinds: tuple[str, ...] = tuple(BASES)
    rounds: int = 7


def make_points(kind: str) -> list[Point]:
    """Return the base, and the base with one other value."""
    base = BASES[kind]
    every = [Point(kind, **base | {axis: value}) for axis, values in VALUES[kind].items() for value in values]
    return list(dict.fromkeys(every))


def make_products(shapes: list[tuple[int, int, int]], batch: int, stack: int = 1) -> Callable[[], None]:
    """Return a call that makes the products of an update: forward, to the weights, and to the inputs but for the first
    layer. shapes: (inputs, outputs, networks) of each layer."""
    operands = []
    for number, (d_in, d_out, networks) in enumerate(shapes):
        n = networks * stack
        sizes = [(batch, d_in, d_out), (d_out, batch, d_in)] + [(batch, d_out, d_in)] * (number > 0)
        operands += [(torch.randn(n, a, b), torch.randn(n, b, c), torch.empty(n, a, c)) for a, b, c in sizes]

    def run() -> None:
        for a, b, out in operands:
            torch.bmm(a, b, out=out)

    return run


def make_adam_traffic(parameters: int) -> Callable[[], object]:
    """Return a call that moves the bytes of Adam's step: four vectors read, three written."""
    vectors = torch.zeros(4, parameters)
    return lambda: torch._fused_adam_(
        [vectors[0]], [vectors[1]], [vectors[2]], [vectors[3]], [], [torch.ones(())], lr=1e-3, beta1=0.9, beta2=0.999,
        weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
    )  # fmt: skip


def time_call(call: Callable[[], object], repeats: int = 50) -> float:
    """Return the median microseconds of a call."""
    call()
    return 1e6 * median(seconds(call) for _ in range(repeats))


def layers(inputs: int, width: int, depth: int, outputs: int, networks: int = 1) -> list[tuple[int, int, int]]:
    sizes = [inputs, *[width] * depth, outputs]
    return [(a, b, networks) for a, b in pairwise(sizes)]


def simulator(environments: int) -> float:
    """Return the microseconds of MuJoCo's step of one HalfCheetah."""
    import gymnasium as gym
    import mujoco

    env: Any = gym.make("HalfCheetah-v5").unwrapped
    env.reset(seed=0)
    return time_call(lambda: mujoco.mj_step(env.model, env.data, env.frame_skip), 500)


def agent(kind: str, settings: Any, steps: int, rounds: int) -> Parts:
    """Return the medians of an agent's parts."""
    from stepped import SteppedAgent

    run = SteppedAgent(kind, settings)
    run.live(2 * steps)
    turns = [{name: 1e6 * spent / steps for name, spent in run.live(steps).items()} for _ in range(rounds)]
    parts = {name: median(turn[name] for turn in turns) for name in turns[0]}
    whole = sorted(sum(turn.values()) for turn in turns)
    return parts | {"least": whole[0], "greatest": whole[-1]}


def ppo(p: Point, rounds: int) -> Parts:
    from supple.agents.ppo import PPOSettings

    rollout = max(256, 2048 // p.environments)
    steps = rollout * p.environments
    settings = PPOSettings(
        env="HalfCheetah-v5", steps=10**9, num_envs=p.environments, rollout_steps=rollout, minibatch_size=p.batch,
        hidden=(p.width,) * p.depth, adapter=0, share_value=False, compile="on", threads=p.threads,
        env_threads=p.threads,
    )  # fmt: skip
    parts = agent("ppo", settings, steps, rounds)
    both = layers(17, p.width, p.depth, 6) + layers(17, p.width, p.depth, 1)
    size = sum(a * b + b for a, b, _ in both)
    update = time_call(make_products(layers(17, p.width, p.depth, 6), p.batch)) + time_call(
        make_products(layers(17, p.width, p.depth, 1), p.batch)
    )
    return parts | {"floor": simulator(1) + settings.epochs * (update + time_call(make_adam_traffic(size))) / p.batch}


def sac(p: Point, rounds: int) -> Parts:
    from sac_parts import products_alone

    from supple.agents.sac import SACSettings
    from supple.agents.sac.agent import SAC, Control
    from supple.engine.kinds import presets_of

    preset = presets_of("sac")["sac-mlp"].settings
    own = {"hidden": (p.width,) * p.depth, "batch_size": p.batch, "num_envs": p.environments, "threads": p.threads}
    own["env_threads"] = p.threads
    settings = SACSettings(env="HalfCheetah-v5", steps=10**9, device="cpu", compile="on", **{**preset, **own})
    parts = agent("sac", settings, 200, rounds)
    spaces = {"HalfCheetah-v5": Control(17, (-1.0,) * 6, (1.0,) * 6)}
    bare = SAC(SACSettings(env="HalfCheetah-v5", steps=10**9, device="cpu", compile="off", **{**preset, **own}), spaces)
    size = sum(q.numel() for learner in bare.learners.values() for q in learner.module.parameters())
    return parts | {"floor": simulator(1) + time_call(products_alone(bare)) + time_call(make_adam_traffic(size))}


def dqn(p: Point, rounds: int) -> Parts:
    from supple.agents.dqn import DQNSettings

    settings = DQNSettings(
        env="ALE/Asterix-v5", steps=10**9, num_envs=p.environments, batch_size=p.batch, threads=p.threads,
        env_threads=p.threads, device="cpu", replay_ratio=0.25, replay_size=20_000, learning_starts=1_000,
    )  # fmt: skip
    from stepped import SteppedAgent

    run = SteppedAgent("dqn", settings)
    run.live(1_200)
    turns = [{name: 1e6 * spent / 400 for name, spent in run.live(400).items()} for _ in range(rounds)]
    whole = sorted(sum(turn.values()) for turn in turns)
    parts = {name: median(turn[name] for turn in turns) for name in turns[0]}
    network, target = run.agent.network, run.agent.target
    frames = torch.randint(0, 256, (p.batch, 4, 84, 84), dtype=torch.uint8)
    x = frames.contiguous(memory_format=torch.channels_last).float()
    weights = list(network.parameters())

    def passes() -> None:
        torch.autograd.grad(network.mlp(network.encoder(x)).sum(), weights)
        with torch.no_grad():
            target.mlp(target.encoder(x))

    floor = (time_call(passes) + time_call(make_adam_traffic(sum(q.numel() for q in weights)))) / 4
    return parts | {"floor": floor, "least": whole[0], "greatest": whole[-1]}


def classifiers(p: Point, rounds: int) -> Parts:
    from seeds_stacked import Stacked, random_bytes

    own = {"width": p.width, "batch_size": p.batch, "seeds": tuple(range(p.seeds))}
    stack = Stacked(random_bytes(), compiled=True, **own)
    updates = 200
    for _ in range(updates):
        stack()
    turns = sorted(1e6 * seconds(lambda: [stack() for _ in range(updates)]) / updates for _ in range(rounds))
    shapes = layers(784, p.width, 2, 10, p.seeds)
    size = p.seeds * sum(a * b + b for a, b, _ in shapes)
    floor = time_call(make_products(shapes, p.batch)) + time_call(make_adam_traffic(size))
    return {"updating": median(turns), "least": turns[0], "greatest": turns[-1], "floor": floor}


KINDS: dict[str, Callable[[Point, int], Parts]] = {"ppo": ppo, "sac": sac, "dqn": dqn, "classifiers": classifiers}


def measure(point: Point, rounds: int) -> Parts:
    begin(point.threads)
    return KINDS[point.kind](point, rounds)


def total(parts: Parts) -> float:
    return sum(value for name, value in parts.items() if name not in ("floor", "least", "greatest"))


def read() -> dict[Point, Parts]:
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return {Point(**row["point"]): row["parts"] for row in rows}


def run(o: Options) -> None:
    found = read()
    todo = [point for kind in o.kinds for point in make_points(kind) if point not in found]
    print(f"{len(todo)} points to measure")
    for point in todo:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            found[point] = pool.submit(measure, point, o.rounds).result()
        rows = [{"point": vars(p), "parts": {n: round(v, 2) for n, v in parts.items()}} for p, parts in found.items()]
        RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
        print(point, f"{total(found[point]):,.0f} µs, floor {found[point]['floor']:,.0f}", flush=True)


def show(o: Options) -> None:
    found = read()
    for kind in o.kinds:
        measured = [point for point in make_points(kind) if point in found]
        if not measured:
            continue
        axes = [axis for axis in BASES[kind] if len(VALUES[kind][axis]) > 2]
        figure(kind, axes, found)
        print(f"\n**{kind}**, µs of one {UNITS[kind]}; the base is {BASES[kind]}\n")
        print("| | value: median (least–greatest), × floor |\n|---|---|")
        for axis in BASES[kind]:
            cells = []
            for value in VALUES[kind][axis]:
                if (point := Point(kind, **BASES[kind] | {axis: value})) in found:
                    parts = found[point]
                    span = f"{parts['least']:,.0f}–{parts['greatest']:,.0f}"
                    cells.append(f"{value}: {total(parts):,.0f} ({span}), {total(parts) / parts['floor']:.1f}")
            print(f"| {axis} | {' · '.join(cells)} |")
        one, two = (found.get(Point(kind, **BASES[kind] | {"threads": n})) for n in (1, 2))
        if one and two:
            print(
                f"\nOn {CORES} cores, computed: {scale_to_cores(kind, one, two):,.0f} µs "
                f"(measured on 1: {total(one):,.0f})"
            )


def scale_to_cores(kind: str, one: Parts, two: Parts) -> float:
    """Return the microseconds of a step on CORES cores, by Amdahl's law from the parts on one and two threads."""
    time = 0.0
    for name in one.keys() - {"floor", "least", "greatest"}:
        cores = min(CORES, BASES[kind]["environments"]) if name == "environment" else CORES
        share = min(1.0, max(0.0, 2 * (1 - two[name] / one[name]))) if one[name] else 0.0
        time += one[name] * (1 - share + share / cores)
    return time


def figure(kind: str, axes: list[str], found: dict[Point, Parts]) -> None:
    """Draw docs/images/growth-KIND.png: the time of a step over each setting, and its floor."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    drawn, panels = plt.subplots(1, len(axes), figsize=(3.2 * len(axes), 3), sharey=True, squeeze=False)
    for panel, axis in zip(panels[0], axes, strict=True):
        line = [(v, found.get(Point(kind, **BASES[kind] | {axis: v}))) for v in VALUES[kind][axis]]
        there = [(value, parts) for value, parts in line if parts]
        x = [value for value, _ in there]
        panel.plot(x, [total(parts) for _, parts in there], "o-", label="measured")
        panel.plot(x, [parts["floor"] for _, parts in there], "s--", color="grey", label="floor")
        panel.set(xscale="log", yscale="log", xlabel=axis)
        panel.set_xticks(x, [str(value) for value in x])
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        panel.minorticks_off()
    panels[0][0].set_ylabel(f"µs of one {UNITS[kind]}")
    panels[0][0].legend(frameon=False)
    drawn.tight_layout()
    drawn.savefig(IMAGES / f"growth-{kind}.png", dpi=110)
    plt.close(drawn)


if __name__ == "__main__":
    options = tyro.cli(Options)
    run(options) if options.what == "run" else show(options)
