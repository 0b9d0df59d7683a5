"""Differences between arms: which are compared, their tests, and sentences that claim no more than the tests."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.metrics import holm, paired_difference
from supple.reports.tables.cells import MISSING, Form, parts
from supple.reports.tables.differences import Measure, difference_tables, differences, differences_json, verdict

few = settings(max_examples=25)
returns = st.lists(st.integers(-50, 50).map(float), min_size=4, max_size=4)


def measure(name="return", percent=False, variant="", **arms):
    return Measure(name, {arm: dict(enumerate(values)) for arm, values in arms.items()}, percent, variant)


CLEAR = measure(none=[1.0, 2, 3, 4, 5], fire=[101.0, 111, 105, 107, 100], snp=[1.0, 3, 2, 5, 5])


def test_every_arm_is_compared_with_none_whatever_their_order() -> None:
    found = differences([measure(fire=[1.0, 2], none=[0.0, 0], snp=[3.0, 4])])
    assert [(each.arm, each.baseline) for each in found] == [("fire", "none"), ("snp", "none")]
    assert found[0].by_seed == {0: 1.0, 1: 2.0}


def test_without_none_the_first_arm_is_the_baseline() -> None:
    (each,) = differences([measure(relu=[1.0, 2], elu=[3.0, 3])])
    assert (each.arm, each.baseline, each.by_seed) == ("elu", "relu", {0: 2.0, 1: 1.0})


def test_the_fresh_agent_is_a_baseline_and_no_arm() -> None:
    found = differences([measure(fresh=[9.0, 9], none=[1.0, 2], fire=[3.0, 3])])
    assert [(each.arm, each.baseline) for each in found] == [("fire", "none"), ("none", "fresh"), ("fire", "fresh")]
    assert [table.title for table in difference_tables(found)] == [
        "Difference to none",
        "Difference to the fresh agent",
    ]


def test_one_arm_or_none_is_compared_with_nothing() -> None:
    assert differences([measure(none=[1.0]), Measure("return", {})]) == []
    assert difference_tables([]) == []
    assert verdict([]) == []


def test_seeds_are_paired_by_their_numbers_and_those_of_one_arm_left_out() -> None:
    (each,) = differences([Measure("r", {"none": {0: 1.0, 1: 2.0, 2: math.nan}, "fire": {2: 5.0, 1: 4.0, 3: 7.0}})])
    assert each.by_seed == {1: 2.0}
    assert str(each.interval) == "2 (1 of 4 seeds)"
    assert differences([Measure("r", {"none": {0: 1.0}, "fire": {1: 1.0}})]) == []


def test_p_values_are_corrected_over_the_arms_of_a_measure_alone() -> None:
    other = measure("other", none=[1.0, 2, 3], fire=[3.0, 9, 4])
    found = differences([CLEAR, other])
    plain = [
        paired_difference(list(CLEAR.arms[arm].values()), list(CLEAR.arms["none"].values())).p_t
        for arm in ("fire", "snp")
    ]
    assert [each.p_holm for each in found[:2]] == pytest.approx(holm(plain).tolist())
    assert found[2].p_holm == found[2].paired.p_t


def test_the_verdict_has_significant_differences_with_intervals_and_names_the_others() -> None:
    fire, snp = verdict(differences([CLEAR]))
    assert fire == "fire against none, 5 seeds: return is higher: 101.8 [95.5, 108.1] (p after Holm: < .001)."
    assert snp == "snp against none, 5 seeds: no significant difference in return (seeds needed: > 100)."


def test_one_seed_has_no_interval_and_no_test() -> None:
    found = differences([measure(none=[1.0], fire=[100.0])])
    assert verdict(found) == ["fire against none, 1 seed: any difference may be due to chance."]
    (table,) = difference_tables(found)
    assert table.header == ["arm", "measure", "difference"]
    assert table.texts[1:] == [["fire", "return", "99"]]
    assert "1 seed: no interval" in table.words


@few
@given(returns, returns, returns)
def test_nothing_is_claimed_where_the_interval_covers_0(none, fire, snp) -> None:
    for each in differences([measure(none=none, fire=fire, snp=snp)]):
        if each.paired.low is None or each.paired.low <= 0 <= each.paired.high:
            assert not each.significant
            assert "is higher" not in verdict([each])[0]
            assert "is lower" not in verdict([each])[0]


def test_a_difference_that_is_the_same_in_every_seed_has_no_test_and_leaves_the_family_as_it_is() -> None:
    found = differences([measure(none=[1.0, 2, 4], fire=[2.0, 3, 5], snp=[1.0, 2, 4], reset=[9.0, 13, 11])])
    fire, snp, reset = found
    assert (fire.p_holm, snp.p_holm, fire.significant) == (None, None, False)
    assert reset.p_holm == pytest.approx(3 * reset.paired.p_t)
    assert "return differs by 1 in every seed: too few seeds" in verdict([fire])[0]
    assert verdict([snp]) == ["snp against none, 3 seeds: return differs by 0 in every seed."]
    assert difference_tables(found)[0].texts[1][2:5] == ["1", MISSING, MISSING]


def test_differences_of_shares_are_in_percentage_points() -> None:
    (line,) = verdict(differences([measure("accuracy", True, "lr 1", none=[0.5, 0.6, 0.7], fire=[0.4, 0.5, 0.61])]))
    assert line.startswith("lr 1: fire against none, 3 seeds: accuracy is lower: −9.7 [−11.1, −8.2] percentage points")


def test_sign_flips_have_a_column_from_six_seeds_on() -> None:
    rng = np.random.default_rng(0)
    for seeds, there in ((5, False), (6, True)):
        (table,) = difference_tables(differences([measure(none=rng.normal(size=seeds), fire=rng.normal(9, 1, seeds))]))
        assert ("p (signs)" in table.header) == there
        assert ("sign-flip" in table.words) == there


def test_the_file_has_what_the_table_has() -> None:
    body = json.loads(json.dumps(differences_json(differences([CLEAR])), allow_nan=False))
    fire = body["differences"][0]
    assert fire["seeds"] == [0, 1, 2, 3, 4]
    assert fire["per_seed"] == [100, 109, 102, 103, 95]
    assert fire["interval"][0] < fire["mean"] < fire["interval"][1]
    assert fire["p_sign_flip"] is None


@pytest.mark.parametrize(
    ("mean", "ends", "text"),
    [
        (112.4, (85.2, 139.6), "112 [85, 140]"),
        (-0.01234, (-0.0135, -0.0112), "−0.0123 [−0.0135, −0.0112]"),
        (1234.5, (1000.0, 1469.0), "1,234 [1,000, 1,469]"),
        (2e-6, (1e-6, 3e-6), "2e−06 [1e−06, 3e−06]"),
        (400.0, (400.0 - 1e-7, 400.0 + 1e-7), "400 [400, 400]"),
        (0.5, (-math.inf, math.inf), "0.5 (not bounded)"),
        (5.0, (None, None), "5"),
        (math.nan, (None, None), MISSING),
    ],
)
def test_an_interval_has_two_digits_of_its_half(mean, ends, text) -> None:
    assert Form().interval(mean, *ends) == text


def test_more_than_a_hundred_seeds_needed_are_not_counted_but_in_files() -> None:
    fire, snp = differences([CLEAR])
    (table,) = difference_tables([fire, snp])
    column = list(map(str, table.header)).index("seeds needed")
    assert [row[column] for row in table.texts[1:]] == ["3", "> 100"]
    assert [parts(row[column]) for row in table.rows] == [{"": 3}, {"": snp.paired.seeds_needed}]
    assert "p (Holm)" in table.header
