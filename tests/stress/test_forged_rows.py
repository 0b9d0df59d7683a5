"""Forged rows of the board are refused, or disagree with runs of the same or another machine. `pytest -s` counts."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.experiments.board import Row, read_row, rows, write_row
from supple.experiments.board.checking import differences, disagreements
from supple.experiments.board.scoring import MEASURES
from supple.registry.errors import UsageError

Data = dict[str, Any]
Change = Callable[[Data], None]
NOW = {row.method: row for row in rows()}  # stand for the new runs, which would take hours
STUDIES = tuple(next(iter(NOW.values())).results)
ELSEWHERE: dict[str, Any] = {"code": "0" * 16, "machine": "64 × Another", "versions": {"torch": "9.9", "numpy": "9.9"}}


def scores_of(data: Data, study: str) -> Data:
    found: Data = data["results"][study]["scores"]
    return found


def each(study: str, change: Callable[[float], Any]) -> Change:
    """Change the score of every seed of a study."""

    def forge(data: Data) -> None:
        scores = scores_of(data, study)
        scores.update({seed: change(score) for seed, score in scores.items()})

    return forge


def one(study: str, change: Callable[[float], Any], seed: str = "1000") -> Change:
    def forge(data: Data) -> None:
        scores_of(data, study)[seed] = change(scores_of(data, study)[seed])

    return forge


def both(*changes: Change) -> Change:
    def forge(data: Data) -> None:
        for change in changes:
            change(data)

    return forge


def spread(study: str, factor: float) -> Change:
    def forge(data: Data) -> None:
        scores = scores_of(data, study)
        middle = sum(scores.values()) / len(scores)
        scores.update({seed: middle + factor * (score - middle) for seed, score in scores.items()})

    return forge


def permuted(study: str) -> Change:
    def forge(data: Data) -> None:
        scores = scores_of(data, study)
        scores.update(dict(zip(scores, [*scores.values()][1:] + [*scores.values()][:1], strict=True)))

    return forge


def entry(study: str, **values: Any) -> Change:
    return lambda data: data["results"][study].update(values)


def without(study: str, seed: str) -> Change:
    def forge(data: Data) -> None:
        del scores_of(data, study)[seed]

    return forge


def renamed(study: str, seed: str, name: str) -> Change:
    def forge(data: Data) -> None:
        scores = scores_of(data, study)
        scores[name] = scores.pop(seed)

    return forge


def mean_kept(study: str) -> Change:
    return both(one(study, lambda x: x + 1000, "1000"), one(study, lambda x: x - 1000, "1001"))


def in_study(study: str) -> dict[str, Change]:
    """Return forgeries of one study that no honest row of any machine contains."""
    return {
        "one seed × 10⁹": one(study, lambda x: x * 1e9),
        "one seed ÷ −10⁹": one(study, lambda x: -x * 1e9, "1004"),
        "+1000/−600": both(one(study, lambda x: x + 1000), one(study, lambda x: x - 600, "1001")),
        "mean kept": mean_kept(study),
        "all + 10⁶": each(study, lambda x: x + 1e6),
        "NaN": one(study, lambda x: float("nan")),
        "∞": one(study, lambda x: float("inf")),
        "−∞": one(study, lambda x: float("-inf")),
        "text": one(study, str),
        "true": one(study, lambda x: True),
        "list": one(study, lambda x: [x]),
        "10⁴⁰⁰": one(study, lambda x: 10**400),
        "failed": one(study, lambda x: None),
        "seed missing": without(study, "1003"),
        "seed more": lambda data: scores_of(data, study).update({"1005": scores_of(data, study)["1000"]}),
        "seed renamed": renamed(study, "1002", "2"),
        "seed with a nought": renamed(study, "1002", "01002"),
        "all seeds equal": each(study, lambda x: 0.5),
        "spread × 20": spread(study, 20),
        "spread ÷ 100": spread(study, 0.01),
        "sign": each(study, lambda x: -x),
        "no seeds": entry(study, scores={}),
        "other settings": entry(study, settings="0" * 16),
        "time below 0": entry(study, seconds=-1.0),
        "no time": entry(study, seconds=0.0),
        "cost below 0": entry(study, cost=-1.0),
        "cost of a hundredth": entry(study, cost=0.01),
        "cost of a hundred": entry(study, cost=100.0),
        "cost of 10⁻⁹ in a second": entry(study, cost=1e-9, seconds=1.0),
        "no cost": entry(study, cost=None),
        "a second": entry(study, seconds=0.1),
        "10¹² seconds": entry(study, seconds=1e12),
        "study missing": lambda data: data["results"].pop(study),
        "study renamed": lambda data: data["results"].update({"mine": data["results"].pop(study)}),
        "study more": lambda data: data["results"].update({"mine": data["results"][study]}),
        "result a list": lambda data: data["results"].update({study: []}),
        "seconds missing": lambda data: data["results"][study].pop("seconds"),
        "entry more": entry(study, note="mine"),
    }


# What only runs with the same code, versions and machine can show, where numbers are equal.
SAME = {
    "permuted": permuted,
    "last digit": lambda study: one(study, lambda x: x + 1e-6),
    "spread ÷ 2": lambda study: spread(study, 0.5),
    "mean + 1 %": lambda study: each(study, lambda x: x * 1.01),
    "one seed + 1 %": lambda study: one(study, lambda x: x * 1.01),
}
WHOLE: dict[str, Change] = {
    "another plug-in": lambda data: data.update(plugins={"mine.py": "0" * 64}),
    "no results": lambda data: data.update(results={}),
    "method a number": lambda data: data.update(method=3),
    "no code": lambda data: data.pop("code"),
    "versions a text": lambda data: data.update(versions="new"),
    "machine null": lambda data: data.update(machine=None),
    "sum more": lambda data: data.update(sums={}),
}


def refused(path: Path, row: Row, change: Change) -> bool:
    """Return whether a row with this change is refused when it is read, or disagrees with the runs of the row."""
    write_row(path, row)
    data = json.loads((path / "row.json").read_text())
    change(data)
    (path / "row.json").write_text(json.dumps(data))
    try:
        return bool(disagreements(read_row(path), NOW[row.method]))
    except UsageError as error:
        return "\n" not in str(error)


def told(name: str, held: list[str], failed: list[str]) -> None:
    print(f"\n{name}: {len(held) + len(failed)} attempts, {len(held)} held")
    assert not failed


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
def test_forged_rows_are_refused_or_disagree(tmp_path: Path, elsewhere: bool) -> None:
    held: list[str] = []
    failed: list[str] = []
    for method, row in NOW.items():
        base = replace(row, **ELSEWHERE) if elsewhere else row
        assert disagreements(base, row) == {}
        tries = {**WHOLE}
        for study in STUDIES:
            tries |= {f"{study}: {name}": change for name, change in in_study(study).items()}
            if not elsewhere:
                tries |= {f"{study}: {name}": change(study) for name, change in SAME.items()}
        for name, change in tries.items():
            (held if refused(tmp_path, base, change) else failed).append(f"{method}, {name}")
    told(f"forged rows, {'elsewhere' if elsewhere else 'here'}", held, failed)


def test_every_other_origin_is_listed() -> None:
    held: list[str] = []
    failed: list[str] = []
    for row in NOW.values():
        origins: dict[str, Row] = {
            "code": replace(row, code="0" * 16),
            "machine": replace(row, machine="1 × Another"),
            "mine.py": replace(row, plugins={"mine.py": "0" * 64}),
            **{name: replace(row, versions={**row.versions, name: "0.0"}) for name in row.versions},
            "more": replace(row, versions={**row.versions, "more": "1.0"}),
        }
        for name, other in origins.items():
            found = differences(other, row)
            (held if len(found) == 1 and found[0].startswith(f"{name} ") else failed).append(name)
        fewer = replace(row, versions={name: v for name, v in row.versions.items() if name != "torch"})
        (held if len(differences(fewer, row)) == 1 else failed).append("torch missing")
    told("origins", held, failed)


def test_honest_rows_agree() -> None:
    """Rows of another processor differ in last digits, by per cent, or, if training is chaotic, altogether."""
    generator = np.random.default_rng(1)
    held: list[str] = []
    failed: list[str] = []
    for method, row in NOW.items():
        for kind in ("equal", "1e-6", "1e-3", "1e-2", *["sample"] * 5):
            results = {}
            for study, result in row.results.items():
                scores = np.array([score for score in result.scores.values() if score is not None])
                noise = generator.standard_normal(len(scores))
                if kind == "sample":
                    new = np.clip(scores.mean() + scores.std(ddof=1) * noise, MEASURES[study].low, MEASURES[study].high)
                else:
                    new = scores if kind == "equal" else scores + float(kind) * scores.std(ddof=1) * noise
                results[study] = replace(
                    result, scores={s: round(float(x), 6) for s, x in zip(result.scores, new, strict=True)}
                )
            wrong = disagreements(replace(row, results=results, **ELSEWHERE), row)
            (failed if wrong else held).append(f"{method}, {kind}: {wrong}")
    told("honest rows", held, failed)
