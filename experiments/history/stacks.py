"""A stack of seeds, read back as separate runs: one history per seed."""

from collections.abc import Iterator, Mapping, Sequence

from .logs import Row

Logs = dict[str, list[Row]]
SIDES = ("before", "after", "change")  # the measurements of an intervention


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

    Its numbers are lists with one for each of the event's `seeds`, or single ones for all of them.
    """
    if event.get("event") != "intervention":
        return event
    place = list(event.get("seeds", seeds)).index(seed)
    of_seed = {name: value for name, value in event.items() if name != "seeds"} | {"seed": seed}
    for side in (side for side in SIDES if side in event):
        known = {name: value for name, value in event[side].items() if value is not None}
        of_seed[side] = {name: value[place] if isinstance(value, list) else value for name, value in known.items()}
    return of_seed
