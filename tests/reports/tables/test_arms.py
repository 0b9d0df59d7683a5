"""Tables of all arms, compared with numbers computed by hand or by the metrics."""

from dataclasses import replace

import numpy as np
import pytest

from supple.experiments.comparisons.grid import Point
from supple.experiments.sweeps.study import Published
from supple.metrics import iqm, probability_of_improvement, t_interval
from supple.reports.tables.arms import arms_table, group_by_family, overall_table, pairs_table
from supple.reports.tables.cells import Number
from supple.reports.tables.differences import Measure
from supple.reports.tables.table import Table

NONE, FIRE = [1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 5.0, 9.0]


def measure(name: str = "final return", variant: str = "", place: str = "", **arms: list[float]) -> Measure:
    by_seed = {arm: dict(enumerate(values)) for arm, values in arms.items()}
    value = variant.split(" ")[-1]
    points = {arm: Point(arm, {"activation": value} if variant else {}) for arm in arms}
    return Measure(name, by_seed, False, variant, points, "final return" if place else "", place)


def row(table: Table, first: str) -> dict[str, str]:
    header, *rows = table.texts
    return next(dict(zip(header, cells, strict=True)) for cells in rows if cells[0] == first)


def test_every_arm_in_every_variant_has_its_mean_and_its_iqm_with_intervals() -> None:
    table = arms_table(
        [measure(variant="activation relu", none=NONE, fire=FIRE), measure(variant="activation tanh", none=FIRE)]
    )
    assert [cells[:2] for cells in table.rows] == [["none", "relu"], ["fire", "relu"], ["none", "tanh"]]
    found = row(table, "fire")
    low, high = (float(end) for end in t_interval(FIRE) or ())
    assert found["mean [95 %]"] == f"{np.mean(FIRE):.1f} [{low:.1f}, {high:.1f}]".replace("-", "−")
    assert found["IQM [95 %]"].startswith(f"{iqm(FIRE):.1f} [")


@pytest.mark.parametrize(("name", "sign"), [("final return", 1.0), ("final val loss", -1.0)])
def test_better_is_higher_but_of_losses_lower(name: str, sign: float) -> None:
    table = arms_table([measure(name, none=NONE, fire=FIRE)])
    expected = probability_of_improvement(sign * np.array(FIRE)[:, None], sign * np.array(NONE)[:, None]).mean
    assert row(table, "fire")["P(better than none) [95 %]"].startswith(f"{expected:.2f} [")


def test_a_baseline_that_tuning_chose_for_each_variant_has_both_names() -> None:
    tuned = {"relu": "none + learning_rate=0.001", "tanh": "none + learning_rate=0.01"}
    table = arms_table([measure(variant=f"activation {name}", **{arm: NONE}, fire=FIRE) for name, arm in tuned.items()])
    assert f"P(better than {' or '.join(tuned.values())}) [95 %]" in table.texts[0]


def test_published_numbers_and_shares_of_a_fresh_agent_stand_in_the_row_of_their_arm() -> None:
    beside = Published("Table 2", "final return", {"activation=relu/fire": 7.5})
    one = replace(measure(variant="activation relu", none=NONE, fire=FIRE), shares={"fire": Number(0.5)})
    table = arms_table([one], beside)
    found = {arm: row(table, arm) for arm in ("none", "fire")}
    assert (found["fire"]["published"], found["none"]["published"]) == ("7.5", "–")
    assert (found["fire"]["share of a fresh agent"], found["none"]["share of a fresh agent"]) == ("0.5", "–")
    assert "Table 2" in table.words


def test_one_seed_has_no_interval_and_a_seed_without_a_number_is_none() -> None:
    table = arms_table([measure(none=[1.0, np.nan], fire=[2.0, np.nan])])
    assert row(table, "fire")["mean [95 %]"] == "2 (1 of 2 seeds)"
    assert row(table, "fire")["seeds"] == "1"
    assert "1 seed" in table.words


def test_pairs_are_over_all_variants_that_have_both() -> None:
    measures = [measure(variant=f"activation {name}", none=NONE, fire=FIRE, snp=NONE) for name in ("relu", "tanh")]
    table = pairs_table("final return", measures)
    assert table is not None
    found = row(table, "fire")
    both = np.stack([FIRE, FIRE], axis=1), np.stack([NONE, NONE], axis=1)
    assert found["none"].startswith(f"{probability_of_improvement(*both).mean:.2f} [")
    assert found["fire"] == "–"
    assert pairs_table("final return", [measure(none=NONE, fire=FIRE)]) is None


def test_several_environments_are_scaled_before_they_are_joined() -> None:
    """In each the arms are as far apart as runs are, whatever its unit."""
    low, high = [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
    measures = [
        measure("final return in A", place="A", none=low, fire=high),
        measure("final return in B", place="B", none=low, fire=[1000 * value for value in high]),
    ]
    assert list(group_by_family(measures)) == ["final return"]
    table = overall_table("final return", measures)
    assert table is not None
    assert [cells[2].split(" ")[0] for cells in table.texts[1:]] == ["0", "1"]
    assert overall_table("final return", measures[:1]) is None


def test_one_published_number_for_all_environments_stands_beside_all_of_them() -> None:
    measures = [measure(f"final return in {place}", place=place, none=NONE, fire=FIRE) for place in "AB"]
    table = overall_table("final return", measures, Published("Table F1", "plasticity score", {"fire": 0.4}))
    assert table is not None
    assert [str(cells[3]) for cells in table.texts[1:]] == ["–", "0.4"]
    assert "Published: plasticity score, Table F1." in table.words
