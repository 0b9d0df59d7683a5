"""How does the time of a step grow with environments, width, depth, batch, seeds and threads, beside its floor?

    python benchmarks/growth.py run               # every point; those in docs/results/growth.json are not repeated
    python benchmarks/growth.py run --kinds ppo sac
    python benchmarks/growth.py show              # the tables, one figure a kind, and what 16 cores would give

From a base, one setting at a time takes other values. Each point is a process of its own: compiled, warmed up, then
`rounds` turns. Floors are those of parts/of_agents.py: the simulator's own step; of an update its matrix products, or
the convolutional network's passes, and Adam's step.

16 cores are computed, not measured. What two threads save of a part gives its parallel share p by Amdahl's law,
T(n) = T(1)·(1 − p + p/n). The environments' part is shared by as many cores as there are copies.
"""

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import tyro

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks" / "parts")]  # after the folder of this file, which Python itself adds

import floors  # noqa: E402
import of_agents  # noqa: E402
import subjects  # noqa: E402
from entries import Asked, Turns  # noqa: E402
from timing import begin, microseconds, seconds, take_turns  # noqa: E402

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


def turns_of(p: Point) -> Turns:
    """Return turns of "compiled" or "supple", and of "floor"."""
    asked = Asked(p.threads, small=False)
    if p.kind == "ppo":
        rollout = max(256, 2048 // p.environments)
        own = {"num_envs": p.environments, "rollout_steps": rollout, "hidden": (p.width,) * p.depth}
        return of_agents.ppo(asked, ("on",), minibatch_size=p.batch, **own)
    if p.kind == "sac":
        own = {"num_envs": p.environments, "hidden": (p.width,) * p.depth, "batch_size": p.batch}
        return of_agents.sac(asked, ("on",), **own)
    if p.kind == "dqn":
        return of_agents.dqn(asked, num_envs=p.environments, batch_size=p.batch, replay_size=20_000)
    stack = subjects.Stacked(True, tuple(range(p.seeds)), width=p.width, batch_size=p.batch)
    layers = floors.mlp(784, (p.width,) * 2, 10, p.seeds)
    calls = floors.multiply(floors.products_of(layers, p.batch)), floors.step_adam(floors.parameters(layers))
    return {
        "supple": lambda: {"updating": 1e6 * seconds(lambda: stack(200)) / 200},
        "floor": lambda: {"updating": sum(map(microseconds, calls))},
    }


def measure(point: Point, rounds: int) -> Parts:
    begin(point.threads)
    found = take_turns(turns_of(point), rounds)
    floor = median(sum(turn.values()) for turn in found.pop("floor"))
    (turns,) = found.values()
    whole = sorted(sum(turn.values()) for turn in turns)
    parts = {name: median(turn.get(name, 0.0) for turn in turns) for name in turns[0]}
    return parts | {"least": whole[0], "greatest": whole[-1], "floor": floor}


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
