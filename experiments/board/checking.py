"""Check a submitted row against the results of training its runs again."""

from ...metrics import t_interval
from .row import Row
from .scoring import suite, sum_of


def disagreements(before: Row, now: Row) -> dict[str, str]:
    """Return the disagreements between a row and a new row of the same method, by study of the new row.

    On one machine, scores are the same to the last digit. On another processor, they are other samples of the same
    distribution: they disagree if the 95 % interval of the paired differences excludes 0.
    """
    found: dict[str, str] = {}
    for study in suite(tuple(now.results)):
        if (own := before.results.get(study.name)) is None:
            found[study.name] = "the row does not have this study"
            continue
        again = now.results[study.name]
        if own.settings != sum_of(study):
            found[study.name] = "the row belongs to another suite: its settings are not those of bench.toml"
        elif own.scores.keys() != again.scores.keys():
            found[study.name] = f"the row has seeds {', '.join(own.scores)}, but the suite {', '.join(again.scores)}"
        elif own.failed != again.failed:
            found[study.name] = f"{own.failed} of the row's runs failed, but {again.failed} of the new ones"
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
