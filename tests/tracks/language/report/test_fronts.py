from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from supple.experiments.comparisons.grid import Point
from supple.reports.tables.cells import MISSING
from supple.reports.tables.statistics import Spread
from supple.tracks.language.report.fronts import FrontPoint, TradeOff, draw_fronts, find_trade_off, fronts_table

pytestmark = pytest.mark.slow

NAN = float("nan")


def cell(arm: str, words: str, **numbers: tuple[list[float], list[float]]) -> Any:
    """As `cells.Cell`: name=(of the base model, at the end), one number a seed."""
    numbers_of = {
        name: {"base": Spread(np.array(base), range(len(base))), "final": Spread(np.array(final), range(len(final)))}
        for name, (base, final) in numbers.items()
    }
    return SimpleNamespace(point=Point(arm, {}), words=words, numbers=numbers_of)


def study(**learn: tuple[list[float], list[float]]) -> list[Any]:
    return [
        cell("none", "lr 1", learn_accuracy=([0.2], [0.5]), retain_accuracy=([0.6], [0.3]), **learn),
        cell("none", "lr 2", learn_accuracy=([0.2], [0.4]), retain_accuracy=([0.6], [0.2]), **learn),
        cell("sib", "lr 1", learn_accuracy=([0.2], [0.5]), retain_accuracy=([0.6], [0.5]), **learn),
    ]


def two(first: float, second: float) -> Spread:
    return Spread(np.array([first, second]), [0, 1])


def test_points_are_final_scores_shown_in_percent() -> None:
    trade_off = find_trade_off(study())
    assert trade_off is not None
    assert [(arm, p.words, *p.mean) for arm, points in trade_off.points.items() for p in points] == [
        ("none", "lr 1", 0.5, 0.3),
        ("none", "lr 2", 0.4, 0.2),
        ("sib", "lr 1", 0.5, 0.5),
    ]
    assert trade_off.base == pytest.approx((0.2, 0.6))
    assert (str(trade_off.learned), str(trade_off.retained)) == ("learn accuracy (%)", "retain accuracy (%)")
    assert fronts_table(trade_off).texts[1][2:4] == ["50", "30"]


def test_without_scores_the_negative_losses_are_compared() -> None:
    trade_off = find_trade_off([cell("none", "", learn_loss=([2.0], [1.0]), retain_loss=([1.0], [3.0]))])
    assert trade_off is not None
    assert trade_off.points["none"][0].mean == (-1.0, -3.0)
    assert str(trade_off.learned) == "−learn loss"
    assert "area" not in fronts_table(trade_off).header


def test_unfinished_seeds_and_runs_without_a_retained_task_give_no_point() -> None:
    trade_off = find_trade_off(
        [cell("none", "", learn_loss=([2.0, 2.0], [1.0, NAN]), retain_loss=([1.0, 1.0], [3.0, NAN]))]
    )
    assert trade_off is not None
    assert trade_off.points["none"][0].learned.by_seed == {0: -1.0}
    assert find_trade_off([cell("none", "", learn_loss=([2.0], [NAN]), retain_loss=([1.0], [NAN]))]) is None
    assert find_trade_off([cell("none", "", learn_loss=([2.0], [1.0]))]) is None


def test_the_table_says_what_is_on_the_front_and_the_area_under_it() -> None:
    trade_off = find_trade_off(study())
    assert trade_off is not None
    rows = fronts_table(trade_off).texts[1:]
    assert [row[4] for row in rows] == ["yes", "", "yes", ""]
    assert [row[5] for row in rows] == ["0.15", "0.15", "0.25", ""]
    assert MISSING not in {text for row in rows for text in row}


def test_the_figure_shows_every_point_every_front_and_the_base_model() -> None:
    points = [FrontPoint(f"lr {i}", two(0.1 * i, 0.12 * i), two(0.5 - i / 100, 0.48 - i / 100)) for i in range(4)]
    plot = draw_fronts(TradeOff({"none": points}, (0.2, 0.6), "learn (%)", "retain (%)", True))
    (axes,) = plot.figure.axes
    assert len(axes.collections) >= 5  # four points and the base model
    assert axes.lines[0].get_drawstyle() == "steps-pre"
    assert "2 seeds" in plot.caption
