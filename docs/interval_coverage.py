"""How often does a 95 % interval over a few seeds hold what it is meant to hold?

    python docs/interval_coverage.py [--sets 2000] [--seeds 2 3 5 10 20]

Each set of runs is drawn anew; an interval covers if the truth lies in it. Normal: N(0, 1). Heavy-tailed: Student's t
with 3 degrees of freedom. Bimodal: four in five from N(0, 1), one in five, the run that failed, from N(−8, 1). The
paired difference is of two arms that share a part drawn once a seed and each have a part of their own drawn so; its
truth is 0. The others are of one arm: the truth is the mean of the distribution, or its interquartile mean.
The share of a fresh agent is the ratio of what an arm learned to what the fresh agent learned, both with a normal
deviation that they share by half; noise is the ratio of the deviation to the mean of the latter.
The numbers of docs/concepts/statistics.md, and of `metrics.BOOTSTRAP_COVERAGE` (normal), are those of this program.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from supple.metrics import bootstrap_interval, share_over_seeds, t_interval

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
ENVIRONMENTS = (1, 4, 10)  # of the interquartile mean
NOISES = (0.05, 0.2, 0.5, 1.0)  # of the share of a fresh agent


def draw_bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.normal(size=shape) - 8.0 * (rng.random(shape) < 0.2)


DRAWS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy-tailed": lambda rng, shape: rng.standard_t(3, size=shape),
    "bimodal": draw_bimodal,
}
MEANS = {"normal": 0.0, "heavy-tailed": 0.0, "bimodal": -1.6}


@dataclass(frozen=True)
class Args:
    sets: int = 2000  # of runs, for each number of a bootstrap; ten times as many for the others
    seeds: tuple[int, ...] = (2, 3, 5, 10, 20)  # runs in a set
    reps: int = 2000  # resamplings of a bootstrap


def cover_paired_t(draw: Draw, seeds: int, sets: int) -> float:
    """Return the coverage of the t interval of the paired difference of two arms that are alike."""
    rng = np.random.default_rng(0)
    trunk = draw(rng, (seeds, sets))
    arm, none = (trunk + draw(rng, (seeds, sets)) for _ in range(2))
    return _covered(t_interval(arm - none), 0.0)


def cover_t(draw: Draw, seeds: int, sets: int, truth: float) -> float:
    """Return the coverage of the t interval of one arm's mean."""
    return _covered(t_interval(draw(np.random.default_rng(0), (seeds, sets))), truth)


def cover_bootstrapped_mean(draw: Draw, seeds: int, sets: int, truth: float, reps: int) -> float:
    """Return the coverage of the percentile bootstrap of one arm's mean."""
    rng = np.random.default_rng(0)
    values = draw(rng, (sets, seeds))
    draws = (rng.integers(seeds, size=values.shape) for _ in range(reps))
    means = np.stack([np.take_along_axis(values, rows, 1).mean(1) for rows in draws])
    return _covered(np.percentile(means, (2.5, 97.5), axis=0), truth)


def cover_bootstrapped_iqm(draw: Draw, seeds: int, sets: int, environments: int, reps: int) -> float:
    """Return the coverage of the stratified bootstrap of the interquartile mean over seeds and environments."""
    rng = np.random.default_rng(0)
    large = np.sort(draw(rng, (1_000_000,)))
    values = draw(rng, (sets, seeds, environments))
    ends = np.array([bootstrap_interval(each, reps, seed=i) for i, each in enumerate(values)])
    return _covered(ends.T, float(large[250_000:750_000].mean()))


def cover_share(noise: float, seeds: int, sets: int, environments: int = 1, share: float = 0.5) -> tuple[float, float]:
    """Return the coverage of the interval of the share of a fresh agent, and how often it is bounded.

    Sets in which the fresh agent learned nothing have no share, and do not count.
    """
    rng = np.random.default_rng(0)
    common, of_arm, of_fresh = np.sqrt(0.5) * noise * rng.normal(size=(3, sets, seeds, environments))
    arms, fresh = share + common + of_arm, 1 + common + of_fresh
    found = [share_over_seeds(arm, new, np.zeros(new.shape)) for arm, new in zip(arms, fresh, strict=True)]
    ends = np.array([(each.low, each.high) for each in found if np.isfinite(each.mean)], dtype=np.float64).T
    return _covered((ends[0], ends[1]), share), float(np.isfinite(ends[0]).mean())


def _covered(ends: tuple[Array, Array] | Array | None, truth: float) -> float:
    assert ends is not None
    low, high = ends
    return float(((low <= truth) & (truth <= high)).mean())


def main(args: Args) -> None:
    console = Console()
    for name, draw in DRAWS.items():
        truth, many = MEANS[name], 10 * args.sets
        rows = {
            "paired difference, t": [cover_paired_t(draw, n, many) for n in args.seeds],
            "mean, t": [cover_t(draw, n, many, truth) for n in args.seeds],
            "mean, bootstrap": [cover_bootstrapped_mean(draw, n, args.sets, truth, args.reps) for n in args.seeds],
        }
        for environments in ENVIRONMENTS:
            label = f"IQM over {environments} environment{'s' * (environments > 1)}, bootstrap"
            rows[label] = [cover_bootstrapped_iqm(draw, n, args.sets, environments, args.reps) for n in args.seeds]
        table = Table(name, *(f"{n} seeds" for n in args.seeds))
        for label, found in rows.items():
            table.add_row(label, *(f"{each:.3f}" for each in found))
        console.print(table)
    for environments in (1, 4):
        places = f"{environments} environment{'s' * (environments > 1)}"
        table = Table(f"share of a fresh agent, {places}", *(f"{n} seeds" for n in args.seeds))
        for noise in NOISES:
            found = [cover_share(noise, n, 10 * args.sets, environments) for n in args.seeds]
            table.add_row(f"noise {noise}", *(f"{covered:.3f}, {bounded:.0%} bounded" for covered, bounded in found))
        console.print(table)


if __name__ == "__main__":
    main(tyro.cli(Args))
