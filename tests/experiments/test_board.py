"""The board: rows as data, where methods stand, and whether a row is what its runs come to."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supple.engine.kinds import find_kind, presets, presets_of
from supple.experiments.board import Result, Row, read_row, rows, standings, suite, write_row
from supple.experiments.board.checking import bounds, differences, disagreements
from supple.experiments.board.page import page
from supple.experiments.board.scoring import MEASURES, arm_of, bench, sum_of
from supple.registry.errors import UsageError

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


@pytest.mark.slow
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
        ({"results": {"a": {"scores": {"1": np.nan}, "seconds": 1, "cost": 1, "settings": ""}}}, "but is NaN"),
        ({"results": {"a": {"scores": {"1": np.inf}, "seconds": 1, "cost": 1, "settings": ""}}}, "but is Infinity"),
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


def test_a_row_that_gives_a_seed_twice_is_refused(tmp_path: Path) -> None:
    write_row(tmp_path, NONE)
    text = (tmp_path / "row.json").read_text()
    (tmp_path / "row.json").write_text(text.replace('"1000": 1', '"1000": 9, "1000": 1'))
    with pytest.raises(UsageError, match=r"row\.json: 1000 is given twice"):
        read_row(tmp_path)


HONEST = (60.0, 32.0, 64.0, 81.0, 40.0)  # scores in cart-pole
ELSEWHERE: dict[str, Any] = {"code": "other", "machine": "another"}  # of a row that was trained elsewhere


def scored(*scores: float | None, seeds: tuple[str, ...] = tuple("12345"), **changes: Any) -> Row:
    study = suite()[0]
    of_result = {name: changes.pop(name) for name in ("settings", "cost", "seconds") if name in changes}
    values = {"seconds": 90.0, "cost": 1.0, "settings": sum_of(study), **of_result}
    own = Result(dict(zip(seeds, scores, strict=True)), **values)
    return row("x", 0, 0, 0, **{"results": {study.name: own}, **changes})


def test_a_row_that_is_a_pipe_or_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "row.json")
    (tmp_path / "folder/row.json").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "folder"):
        with pytest.raises(UsageError, match=r"row\.json: not a plain file$"):
            read_row(folder)


def test_a_row_of_the_same_machine_and_code_agrees_only_if_the_score_of_every_seed_is_equal() -> None:
    study = suite()[0].name
    now = scored(*HONEST)
    assert disagreements(scored(*HONEST), now) == {}
    assert disagreements(scored(*HONEST[::-1], seeds=tuple("54321")), now) == {}  # by seed, not by order
    assert differences(scored(*HONEST), now) == []
    for wrong in (scored(*HONEST[::-1]), scored(60.000001, *HONEST[1:]), scored(*HONEST, seeds=tuple("54321"))):
        assert "but the new run" in disagreements(wrong, now)[study]


def test_a_row_from_elsewhere_lies_within_bounds_that_it_cannot_widen() -> None:
    """The second row is another sample of what the first is one of; the rest is what was said to agree before."""
    study, now = suite()[0].name, scored(*HONEST)
    for honest in ((45, 70, 38, 88, 51), [score * 1.001 for score in HONEST]):
        assert disagreements(scored(*honest, **ELSEWHERE), now) == {}
    assert differences(scored(*HONEST, **ELSEWHERE), now) == ["code other → c", "machine another → m"]
    for forged, says in {
        (60e9, *HONEST[1:]): "scores lie between 0 and 400",
        (360, *HONEST[1:]): "seed 1 has 360, but the new runs allow",
        (130, 102, 134, 151, 110): "the mean over seeds differs by +70",
        (63, 36, 66, 84, 42): "the mean over seeds differs by +2.8",  # the same on every seed, so not by chance
        (55, 55, 55, 55, 55): "the standard deviation over seeds is 0",
    }.items():
        assert says in disagreements(scored(*forged, **ELSEWHERE), now)[study]


@pytest.mark.slow
@given(st.floats(-1e12, 1e12), st.integers(0, 4))
def test_no_forged_score_changes_the_bound_on_another(forgery: float, place: int) -> None:
    """The mean of the others is forged by 1,000, which one score of the row may not make look like chance."""
    scores = [score + 1000 for score in HONEST]
    scores[place] = forgery
    assert disagreements(scored(*scores, **ELSEWHERE), scored(*HONEST))


def test_bounds_shrink_with_what_the_new_runs_show_and_stop_at_what_is_known() -> None:
    close, wide = bounds([1.0, 1.1, 0.9, 1.05, 0.95], 30.0), bounds([0.0, 100.0, 200.0, 300.0, 400.0], 30.0)
    assert close.seed < 30 < wide.seed
    assert (close.mean < close.seed, wide.mean < wide.seed) == (True, True)
    assert bounds([1.0] * 5, 30.0).seed > 0  # scores that are equal by chance
    assert bounds([1.0] * 5, 30.0).least == 0
    assert bounds([1.0], 30.0).seed > bounds([1.0, 2.0, 0.5], 30.0).mean / 30


def test_a_row_of_other_settings_seeds_studies_failures_or_plug_ins_disagrees() -> None:
    study, now = suite()[0].name, scored(1, 2, 3, 4, 5)
    for wrong, says in (
        (scored(1, 2, 3, 4, None), "1 of the row's runs failed"),
        (scored(1, 2, 3, 4, 5, settings="old"), "another suite"),
        (scored(1, 2, 3, 4, 5, seeds=("1", "2", "3", "4", "05")), "the row has seeds 1, 2, 3, 4, 05, but the suite"),
        (scored(1, 2, 3, 4, 5, plugins={"x.py": "ab"}), "the row is of another x.py"),
        (scored(1, 2, 3, 4, 5, seconds=-1), "seconds and cost must be positive"),
        (scored(1, 2, 3, 4, 5, cost=0.1), "the cost is 0.1, but 1 for the new runs"),
        (scored(1, 2, 3, 4, 5, cost=0.1, seconds=1.0), "the cost is 0.1, but 1 for the new runs"),
        (scored(1, 2, 3, 4, 5, cost=None), "the row has no cost, but the new runs have 1"),
        (scored(1, 2, 3, 4, 5, seconds=1e12), "its runs took 1e+12 seconds, but the new ones 90"),
    ):
        assert says in disagreements(wrong, now)[study]
    assert disagreements(row("x", 1, 2, 3), now)[study] == "the row does not have this study"
    assert disagreements(row("x", 1, 2, 3), now)["a"] == "the suite has no such study"


@pytest.mark.parametrize("published", rows(), ids=lambda row: row.method)
def test_scores_are_possible_and_no_published_row_is_wider_than_its_study_allows(published: Row) -> None:
    for name, result in published.results.items():
        scores = [score for score in result.scores.values() if score is not None]
        assert stdev(scores) <= MEASURES[name].spread
        assert all(MEASURES[name].low <= score <= MEASURES[name].high for score in scores)


def test_the_suite_can_be_trained_with_every_method_of_its_kinds() -> None:
    for study in suite():
        kind = find_kind(study.kind)
        assert MEASURES[study.name].name
        assert arm_of(kind.name, "fresh") != "fresh"


def planned() -> list[tuple[str, object]]:
    """Return the folder and the settings of every run of the board."""
    found = (study.comparisons(lambda *point: 0.0) for study in bench(("fire@task",)).studies)
    return [
        (f"{folder}/{point.folder}", comparison.settings_at(point))
        for folders in found
        for folder, (comparison, _) in folders.items()
        for point in comparison.points
    ]


def test_a_preset_that_changes_does_not_change_what_the_board_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    before, sums = planned(), [sum_of(study) for study in suite()]
    others = {
        name: replace(preset, settings={**preset.settings, "learning_rate": 7.0}, vary={}, fork_at=0.5, arms=("snp",))
        for name, preset in presets.entries.items()
        if "learning_rate" in find_kind(preset.kind).settings_class().__dataclass_fields__
    }
    monkeypatch.setattr(presets, "_entries", {**presets.entries, **others})
    assert presets_of("ppo")["gym-control-small"].settings["learning_rate"] == 7.0
    assert (planned(), [sum_of(study) for study in suite()]) == (before, sums)


@pytest.mark.parametrize("published", rows(), ids=lambda row: row.method)
def test_a_published_row_is_of_this_suite(published: Row) -> None:
    for study in suite():
        result = published.results[study.name]
        assert result.settings == sum_of(study), f"{study.name} has changed: train the row again"
        assert [int(seed) for seed in result.scores] == list(study.seeds or ())
        assert not result.failed


def test_the_page_is_made_of_the_rows() -> None:
    assert (ROOT / "docs/reference/board.md").read_text() == page()
