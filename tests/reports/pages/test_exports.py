"""Tables elsewhere: CSV that a program reads, LaTeX that prints what the page says."""

import csv
import io
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from supple.reports.pages.exports import as_csv, as_latex, with_file_names
from supple.reports.tables.cells import (
    P_VALUE,
    PERCENT,
    BySeed,
    Heading,
    Label,
    Number,
    Pair,
    Value,
    percent,
    show,
)
from supple.reports.tables.table import Table

TABLE = Table(
    "ReDo & L2_init: 95 %",
    ["arm", "final return", percent("accuracy"), "p", "DfI", "by seed"],
    [
        ["none", Number(1112.25, -85.125, 1139.0, {0: 1.0}), Number(np.float64(0.1 + 0.2), form=PERCENT), None,
         Pair(33.0, 1.2e-8), BySeed({0: 11.0, 3: -59.5})],
        ['l2_init(strength=1e-3), "x"', Number(math.nan), None, Number(0.0341, form=P_VALUE), Pair(33, math.nan),
         BySeed({3: 80.0})],
    ],
    "[ ]: 95 % interval.",
)  # fmt: skip


def read(table: Table) -> list[list[str]]:
    return list(csv.reader(io.StringIO(as_csv(table))))


def test_csv_has_one_number_in_a_cell_with_all_its_digits() -> None:
    header, none, other = read(TABLE)
    assert header == [
        "arm", "final return", "final return low", "final return high", "accuracy", "p", "DfI before", "DfI after",
        "by seed, seed 0", "by seed, seed 3",
    ]  # fmt: skip
    assert none == [
        "none",
        "1112.25",
        "-85.125",
        "1139.0",
        "0.30000000000000004",
        "",
        "33.0",
        "1.2e-08",
        "11.0",
        "-59.5",
    ]
    assert other == ['l2_init(strength=1e-3), "x"', "", "", "", "", "0.0341", "33", "", "", "80.0"]


def test_an_interval_without_bounds_is_told_from_one_that_is_missing() -> None:
    unbounded, missing = Number(0.4, -math.inf, math.inf), Number(0.4)
    assert read(Table("t", ["arm", "share"], [["a", unbounded], ["b", missing]]))[1:] == [
        ["a", "0.4", "-inf", "inf"],
        ["b", "0.4", "", ""],
    ]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_back_from_csv_as_it_was(value: float) -> None:
    (_, *rows) = read(Table("t", ["arm", "x"], [["a", value], ["b", Number(value, value, value, form=PERCENT)]]))
    assert [float(each) for row in rows for each in row[1:] if each] == [value] * 4


def test_columns_in_csv_have_different_names() -> None:
    interval = Number(1.0, 0.5, 1.5)
    table = Table("t", ["arm", "x low", "x", "x", "3", "−3", "-3"], [["a", 7, interval, interval, 1, 2, 3]])
    header, cells = read(table)
    assert header == ["arm", "x low", "x", "x low (2)", "x high", "x (2)", "x low (3)", "x high (2)", "3", "-3",
                      "-3 (2)"]  # fmt: skip
    assert cells == ["a", "7", "1.0", "0.5", "1.5", "1.0", "0.5", "1.5", "1", "2", "3"]


def test_missing_numbers_by_seed_add_no_column_to_csv() -> None:
    columns: dict[Heading, list[Value]] = {
        "difference": [1.0, 2.0], Label("difference", "by seed"): [None, BySeed({0: 3.0})]
    }  # fmt: skip
    assert read(Table.from_columns("t", columns)) == [["difference", "difference, seed 0"], ["1.0", ""], ["2.0", "3.0"]]


def test_what_is_no_number_is_shown_as_missing_and_zero_has_no_sign() -> None:
    assert [str(Number(x, form=P_VALUE)) for x in (None, math.nan, 0.0, 1.0)] == ["–", "–", "< .001", "1.000"]
    assert [*map(show, (-0.0, Number(-0.0), Number(-0.0, -0.0, -0.0)))] == ["0", "0", "0 [0, 0]"]


def test_pages_and_latex_show_the_same_text() -> None:
    assert TABLE.texts[1] == ["none", "1,112 [−85, 1,139]", "30.00", "–", "33 → 1.2e−08", "11, −59.5"]
    assert TABLE.texts[0][2] == "accuracy (%)"


def test_latex_escapes_special_characters() -> None:
    text = as_latex(TABLE)
    assert r"\caption{ReDo \& L2\_init: 95 \%}" in text
    assert r"none & 1,112 [$-$85, 1,139] & 30.00 & -- & 33 $\to$ 1.2e$-$08 & 11, $-$59.5 \\" in text
    assert text.startswith("% [ ]: 95 % interval.\n")
    assert r"\textbackslash{}input\{x\}" in as_latex(Table(r"\input{x}", ["a"], [["b"]]))


def test_tables_with_the_same_title_have_different_file_names() -> None:
    names = [name for name, _ in with_file_names([TABLE, TABLE, Table("../§", ["a"], [])])]
    assert names == ["redo-l2-init-95", "redo-l2-init-95-1", "table"]
    names = [name for name, _ in with_file_names([Table(title, ["a"], []) for title in ("x", "x 2", "x", "X", "x-1")])]
    assert len(names) == 5
