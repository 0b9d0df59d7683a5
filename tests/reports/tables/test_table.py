"""Tables: their columns, and cells with their numbers by seed."""

import pickle

import pytest

from supple.reports.pages.page import template
from supple.reports.tables.table import MISSING, BySeed, Table, variant_text


def test_a_cell_is_its_text_and_keeps_its_numbers_between_processes() -> None:
    cell = pickle.loads(pickle.dumps(BySeed.of("2 [1, 3]", {4: 1.0, 7: -3.0})))
    assert cell == "2 [1, 3]"
    assert cell.by_seed == "seed 4: 1, seed 7: −3"
    assert BySeed.of("2", [1.0]) == "2"
    assert BySeed.of("2", [1.0, float("nan")]).by_seed == "by seed: 1, –"


def test_only_cells_with_numbers_by_seed_have_a_title() -> None:
    table = Table("t", ["arm", "score"], [["fire", BySeed.of("2", [1.0, 3.0])], ["none", "1"]])
    text = template("parts.html").module.table_of("t", table)
    assert text.count("title=") == 1
    assert '<td title="by seed: 1, 3">2</td>' in text


def test_columns_without_a_value_are_left_out() -> None:
    columns = {"arm": ["none", "fire"], "variant": ["", ""], "p": [MISSING, MISSING], "score": ["1", MISSING]}
    table = Table.from_columns("t", columns, "explained", turns=False)
    assert table == Table("t", ["arm", "score"], [["none", "1"], ["fire", MISSING]], "explained", turns=False)


@pytest.mark.parametrize(
    ("variant", "text"), [({}, ""), ({"learning_rate": 1e-5, "epochs": 3}, "learning rate 1e-05, epochs 3")]
)
def test_a_variant_as_text(variant: dict[str, float], text: str) -> None:
    assert variant_text(variant) == text
