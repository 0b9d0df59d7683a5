"""Tables: their columns, and cells with their numbers by seed."""

import pickle

import pytest

from supple.experiments.comparisons.grid import variant_text
from supple.reports.pages.page import template
from supple.reports.tables.cells import Number, hover
from supple.reports.tables.table import Table


def test_a_cell_shows_its_numbers_and_keeps_them_between_processes() -> None:
    cell = pickle.loads(pickle.dumps(Number(2.0, 1.0, 3.0, {4: 1.0, 7: -3.0})))
    assert str(cell) == "2.0 [1.0, 3.0]"
    assert hover(cell) == "seed 4: 1, seed 7: −3"
    assert hover(Number(2.0, by_seed={0: 2.0})) == ""


def test_the_page_has_numbers_to_sort_by_and_numbers_by_seed() -> None:
    table = Table("t", ["arm", "score"], [["fire", Number(2.0, by_seed={0: 1.0, 1: 3.0})], ["none", -1]])
    text = template("parts.html").module.table_of("t", table)
    assert text.count("title=") == 1
    assert '<td data-number="2.0" title="seed 0: 1, seed 1: 3">2</td>' in text
    assert '<td data-number="-1">−1</td>' in text


def test_columns_without_a_value_are_left_out() -> None:
    columns = {"arm": ["none", "fire"], "variant": ["", ""], "p": [None, Number(None)], "score": [1, None]}
    table = Table.from_columns("t", columns, "explained", turns=False)
    assert table == Table("t", ["arm", "score"], [["none", 1], ["fire", None]], "explained", turns=False)


@pytest.mark.parametrize(
    ("variant", "text"), [({}, ""), ({"learning_rate": 1e-5, "epochs": 3}, "learning rate 1e-05, epochs 3")]
)
def test_a_variant_as_text(variant: dict[str, float], text: str) -> None:
    assert variant_text(variant) == text
