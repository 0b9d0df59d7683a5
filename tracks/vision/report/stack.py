"""The history of a stack of classifiers, split into one history per seed."""

from dataclasses import replace

from ....experiments.history.collect import Row, RunData
from ....metrics import METRICS

OUTCOME = {"step", "task", "updates", "online_accuracy", "test_accuracy"}
POWERS = {"sum": 1.0, "norm": 0.5}  # of the number of members, by the way in which a metric of a stack is pooled


def by_seed(run: RunData) -> list[RunData]:
    """Return a run of several seeds as one run per seed. Each has its own rows. The first one also has the events."""
    for row in run.outcomes:
        if missing := OUTCOME - row.keys():
            raise ValueError(f"{run.path / 'tasks.jsonl'}: a finished task without {sorted(missing)[0]!r}")
    seeds = [int(seed) for seed in run.config.get("settings", {}).get("seeds", [])] or [run.seed]
    events = [_scale_to_one(event, len(seeds)) for event in run.events]

    def own(rows: list[Row], seed: int) -> list[Row]:
        return [row for row in rows if row.get("seed", seed) == seed]

    return [
        replace(
            run,
            config={**run.config, "seed": seed},
            metrics=own(run.metrics, seed),
            events=events if seed == seeds[0] else [],
            outcomes=own(run.outcomes, seed),
            together=tuple(seeds),
        )
        for seed in seeds
    ]


def _scale_to_one(event: Row, members: int) -> Row:
    """Return an intervention on a stack as one on a single network, if its run did not log it so.

    Events that name their seeds have means over these. In earlier ones, sums over members, such as SFE and DfI, are
    divided by their number, and norms are root mean squares. A metric that is not registered here, such as one of a
    plug-in that was not named, stays as it is."""
    if event.get("event") != "intervention" or members == 1 or "seeds" in event:
        return event
    sides = {}
    for side in ("before", "after"):
        known = {name: value for name, value in event.get(side, {}).items() if value is not None}
        sides[side] = {name: value / members ** _power(name) for name, value in known.items()}
    change = dict(event.get("change", {}))
    if change.get("sfe") is not None:
        change["sfe"] /= members
    return {**event, **sides, "change": change}


def _power(name: str) -> float:
    return POWERS.get(METRICS[name].pool, 0.0) if name in METRICS else 0.0
