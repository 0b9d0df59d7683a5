"""A stack of seeds, read back as separate runs: one history per seed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from supple.metrics import METRICS

from .logs import Row

Logs = dict[str, list[Row]]
SIDES = ("before", "after", "change")  # the measurements of an intervention
POWERS = {"sum": 1.0, "norm": 0.5}  # of the number of members, by the way in which a metric of a stack is pooled


def logs_of_seed(logs: Mapping[str, Sequence[Row]], seed: int, seeds: Sequence[int]) -> Logs:
    """Return the rows of one seed in the logs of a stack, as its run alone would have logged them.

    A row belongs to the seed that it names (`seed`), to those that it names (`seeds`), or to all.

    Args:
        logs: The rows of the stack, by log.
        seed: The seed.
        seeds: The seeds of the stack.
    """
    own: Logs = {"events": list(_events_of(logs["events"], seed, seeds))}
    for name in logs.keys() - own.keys():
        own[name] = [row for row in logs[name] if row.get("seed", seed) == seed]
    return own


def _events_of(events: Sequence[Row], seed: int, seeds: Sequence[int]) -> Iterator[Row]:
    """Yield the events of a seed, which end when it diverges."""
    for event in events:
        if event.get("seed", seed) == seed and seed in event.get("seeds", seeds):
            yield _event_of(event, seed, seeds)
            if event["event"] == "diverged":
                return


def _event_of(event: Row, seed: int, seeds: Sequence[int]) -> Row:
    """Return an intervention on members of a stack as one on the network of a single seed.

    Its numbers are lists with one for each of the event's `seeds`. In older logs there are no seeds, and the numbers
    were measured on the whole stack: sums over members, such as SFE and DfI, are divided by their number, and norms are
    root mean squares. A metric that is not registered here, such as one of a plug-in that was not named, stays as it
    is.
    """
    if event.get("event") != "intervention":
        return event
    fired = list(event.get("seeds", seeds))
    place = fired.index(seed)

    def own(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return value[place]
        if "seeds" in event:  # a mean over them
            return value
        pool = "sum" if name == "sfe" else METRICS[name].pool if name in METRICS else ""
        return value / len(seeds) ** POWERS.get(pool, 0.0)

    of_seed = {name: value for name, value in event.items() if name != "seeds"} | {"seed": seed}
    for side in (side for side in SIDES if side in event):
        of_seed[side] = {name: own(name, value) for name, value in event[side].items() if value is not None}
    return of_seed
