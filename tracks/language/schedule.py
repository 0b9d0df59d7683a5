"""Learning rates over a task, as shares of the highest."""

import math


def linear_rate(update: int, updates: int, warmup: int, floor: float) -> float:
    """Return the factor of the rate, which rises linearly over `warmup` updates, then falls linearly to `floor` at the
    last (FIRE's paper, E.2).

    update: from 0. The first update has the rate 1/(warmup + 1), not 0: an update at rate 0 would be lost.
    """
    if update < warmup:
        return (update + 1) / (warmup + 1)
    done = (update - warmup) / max(updates - 1 - warmup, 1)
    return 1.0 - (1.0 - floor) * min(done, 1.0)


def cosine_rate(update: int, updates: int, warmup: int, cooldown: int, floor: float) -> float:
    """Return the factor of the rate, which rises linearly over `warmup` updates, falls as a cosine to `floor`, and in
    the last `cooldown` updates, which come on top, stays there (the SIB paper, 3.1: it names 50 cool-down steps and not
    what happens in them).

    updates: in all, cool-down included.
    """
    if update < warmup:
        return (update + 1) / (warmup + 1)
    done = min((update - warmup) / max(updates - cooldown - 1 - warmup, 1), 1.0)
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * done))
