"""Whether a row that somebody submits is what its runs come to when they are trained again."""

from ...metrics import t_interval
from .row import Row
from .scoring import suite, sum_of


def disagreements(before: Row, now: Row) -> dict[str, str]:
    """Return study → what does not agree between a row and one of the same method from runs now, of the studies that
    the second one has.

    Scores of one machine are the same to the last digit. Those of another processor are other draws of the same: they
    disagree where the 95 % interval of the differences, seed by seed, leaves out 0."""
    found: dict[str, str] = {}
    for study in suite(tuple(now.results)):
        if (own := before.results.get(study.name)) is None:
            found[study.name] = "the row lacks it"
            continue
        again = now.results[study.name]
        if own.settings != sum_of(study):
            found[study.name] = "the row is of another suite: its settings are not those of bench.toml"
        elif own.scores.keys() != again.scores.keys():
            found[study.name] = f"the row has seeds {', '.join(own.scores)}, and the suite {', '.join(again.scores)}"
        elif own.failed != again.failed:
            found[study.name] = f"{own.failed} of its runs failed, and {again.failed} of these"
        else:
            apart = [
                b - a
                for a, b in zip(own.scores.values(), again.scores.values(), strict=True)
                if a is not None and b is not None
            ]
            ends = t_interval(apart)
            if ends is not None and any(apart) and not ends[0] <= 0 <= ends[1]:
                found[study.name] = f"scores now differ by {float(ends[0]):.3g} to {float(ends[1]):.3g} (95 %)"
    return found
