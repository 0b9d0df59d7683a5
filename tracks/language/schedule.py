"""Learning rates over a task, as shares of the highest."""

import math


def linear_rate(update: int, updates: int, warmup: int, floor: float) -> float:
    """Return the learning rate of an update, as a share of the highest (FIRE's paper, E.2).

    It rises linearly, then falls linearly to `floor` at the last update. The first update has the rate 1/(warmup + 1),
    not 0: an update at rate 0 would be lost.

    Args:
        update: From 0.
        updates: In all.
        warmup: Updates over which the rate rises.
        floor: The last rate, in [0, 1].
    """
    if update < warmup:
        return (update + 1) / (warmup + 1)
    done = (update - warmup) / max(updates - 1 - warmup, 1)
    return 1.0 - (1.0 - floor) * min(done, 1.0)


def cosine_rate(update: int, updates: int, warmup: int, cooldown: int, floor: float) -> float:
    """Return the learning rate of an update, as a share of the highest (the SIB paper, 3.1).

    It rises linearly, falls as a cosine to `floor`, and stays there. The paper names 50 cool-down steps and not what
    happens in them.

    Args:
        update: From 0.
        updates: In all, cool-down included.
        warmup: Updates over which the rate rises.
        cooldown: The last updates, which have the rate `floor`.
        floor: The last rate, in [0, 1].
    """
    if update < warmup:
        return (update + 1) / (warmup + 1)
    done = min((update - warmup) / max(updates - cooldown - 1 - warmup, 1), 1.0)
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * done))
