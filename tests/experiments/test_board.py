"""The board: rows as data, where methods stand, and whether a row is what its runs come to."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supple.experiments.board import Result, Row, read_row, rows, standings, suite, write_row
from supple.experiments.board.checking import disagreements
from supple.experiments.board.page import page
from supple.experiments.board.scoring import MEASURES, arm_of, sum_of
from supple.experiments.errors import UsageError
from supple.experiments.kinds import find_kind, presets

ROOT = Path(__file__).parents[2]
SEEDS = ("1000", "1001", "1002")


def row(method: str, *scores: float | None, study: str = "a", **changes: Any) -> Row:
    result = Result(dict(zip(SEEDS, scores, strict=True)), 60.0, 1.5, "sum")
    return Row(**{
        "method": method, "results": {study: result}, "plugins": {}, "versions": {}, "code": "c", "machine": "m",
        **changes,
    })  # fmt: skip


NONE, FRESH = row("none", 1, 2, 3), row("fresh", 11, 12, 13)


def test_a_share_is_nought_for_none_and_one_for_a_new_network() -> None:
    found = {each.row.method: each for each in standings([row("half", 6, 7, 8), NONE, FRESH], ["a"])}
    assert list(found) == ["fresh", "half", "none"]
    assert [each.overall for each in found.values()] == [(1, 1, 1), (0.5, 0.5, 0.5), (0, 0, 0)]


@given(st.floats(-1e3, 1e3), st.floats(1e-2, 1e2))
def test_shares_depend_on_no_unit_and_no_offset(offset: float, scale: float) -> None:
    scores = {"none": (1, 5, 2), "x": (4, 5, 3), "fresh": (7, 9, 8)}
    shares = [
        {each.row.method: each.overall for each in standings(made, ["a"])}
        for made in (
            [row(name, *own) for name, own in scores.items()],
            [row(name, *(offset + scale * s for s in own)) for name, own in scores.items()],
        )
    ]
    for name in scores:
        np.testing.assert_allclose(shares[0][name], shares[1][name], atol=1e-6)  # type: ignore[arg-type]


def test_what_seeds_share_makes_no_interval_wide() -> None:
    """Seeds differ by a hundred, the method by two to four of ten points from none in each of them."""
    base = (0, 100, 200)
    made = [row(n, *(b + d for b, d in zip(base, own, strict=True)))
            for n, own in (("none", (0, 0, 0)), ("x", (2, 3, 4)), ("fresh", (10, 10, 10)))]  # fmt: skip
    (low, high) = next(each.overall[1:] for each in standings(made, ["a"]) if each.row.method == "x" and each.overall)
    assert 0.2 <= low < 0.3 < high <= 0.4


def test_a_method_with_a_failed_run_or_a_missing_study_stands_last_without_a_share() -> None:
    found = standings([row("failed", 99, 99, None), NONE, row("elsewhere", 9, 9, 9, study="b"), FRESH], ["a"])
    assert [each.row.method for each in found] == ["fresh", "none", "failed", "elsewhere"]
    assert [each.overall for each in found[2:]] == [None, None]
    assert [each.overall for each in standings([NONE], ["a"])] == [None]


def test_a_row_is_read_back_as_it_was_written_and_its_words_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.experiments.board.row.FOLDER", tmp_path)
    write_row(tmp_path / "r", row("x", 1, None, 3, plugins={"x.py": "ab"}))
    (tmp_path / "r" / "about.md").write_text("mine")
    write_row(tmp_path / "r", read_row(tmp_path / "r"))
    assert read_row(tmp_path / "r") == row("x", 1, None, 3, plugins={"x.py": "ab"})
    assert rows() == [read_row(tmp_path / "r")]
    assert (tmp_path / "r" / "about.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": 3}, "method should be a text, but is 3"),
        ({"results": {"a": {"scores": {"1": "high"}, "seconds": 1, "cost": 1, "settings": ""}}}, "results.a.scores"),
        ({"more": 1}, "more is unknown"),
    ],
)
def test_a_damaged_row_is_one_line(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    write_row(tmp_path, NONE)
    data = json.loads((tmp_path / "row.json").read_text())
    (tmp_path / "row.json").write_text(json.dumps(data | change))
    with pytest.raises(UsageError, match=re.escape(says)) as found:
        read_row(tmp_path)
    assert "\n" not in str(found.value)


def test_a_row_agrees_with_its_runs_or_it_is_said_where_not() -> None:
    study = suite()[0]

    def scored(*scores: float | None, settings: str = sum_of(study)) -> Row:
        own = Result(dict(zip(SEEDS, scores, strict=True)), 1.0, None, settings)
        return row("x", 0, 0, 0, results={study.name: own})

    assert disagreements(scored(1, 2, 3), scored(1, 2, 3)) == {}
    assert disagreements(scored(1, 2, 3), scored(2, 1, 3.1)) == {}  # other draws of the same
    assert "scores now differ by" in disagreements(scored(1, 2, 3), scored(5, 6.1, 7))[study.name]
    assert "1 of the row's runs failed" in disagreements(scored(1, 2, None), scored(1, 2, 3))[study.name]
    assert "another suite" in disagreements(scored(1, 2, 3, settings="old"), scored(1, 2, 3))[study.name]
    assert disagreements(row("x", 1, 2, 3), scored(1, 2, 3)) == {study.name: "the row does not have this study"}


def test_the_suite_can_be_trained_with_every_method_of_its_kinds() -> None:
    for study in suite():
        kind = find_kind(study.kind)
        assert study.preset in presets.names()
        assert MEASURES[study.name]
        assert arm_of(kind.name, "fresh") != "fresh"


@pytest.mark.parametrize("published", rows(), ids=lambda row: row.method)
def test_a_published_row_is_of_this_suite(published: Row) -> None:
    for study in suite():
        result = published.results[study.name]
        assert result.settings == sum_of(study), f"{study.name} has changed: train the row again"
        assert [int(seed) for seed in result.scores] == list(study.seeds or ())
        assert not result.failed


def test_the_page_is_made_of_the_rows() -> None:
    assert (ROOT / "docs/reference/board.md").read_text() == page()
