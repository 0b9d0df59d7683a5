"""Tables elsewhere: CSV that a program reads, LaTeX that prints what the page says."""

import csv
import io

from supple.reports.pages.exports import as_csv, as_latex, with_file_names
from supple.reports.tables.table import Table

TABLE = Table(
    "ReDo & L2_init: 95 %",
    ["arm", "final return", "p", "DfI"],
    [["none", "1,112 [−85, 1,139]", "–", "0.1 → 8"], ['l2_init(strength=1e-3), "x"', "–", ".034", "–"]],
    "[ ]: 95 % interval.",
)


def test_csv_has_numbers_as_numbers_and_intervals_in_columns_of_their_own() -> None:
    header, *rows = csv.reader(io.StringIO(as_csv(TABLE)))
    assert header == ["arm", "final return", "final return low", "final return high", "p", "DfI"]
    assert rows[0] == ["none", "1112", "-85", "1139", "", "0.1 → 8"]
    assert rows[1] == ['l2_init(strength=1e-3), "x"', "", "", "", ".034", ""]


def test_latex_escapes_special_characters() -> None:
    text = as_latex(TABLE)
    assert r"\caption{ReDo \& L2\_init: 95 \%}" in text
    assert r"none & 1,112 [$-$85, 1,139] & -- & 0.1 $\to$ 8 \\" in text
    assert text.startswith("% [ ]: 95 % interval.\n")
    assert r"\textbackslash{}input\{x\}" in as_latex(Table(r"\input{x}", ["a"], [["b"]]))


def test_tables_with_the_same_title_have_different_file_names() -> None:
    names = [name for name, _ in with_file_names([TABLE, TABLE, Table("../§", ["a"], [])])]
    assert names == ["redo-l2-init-95", "redo-l2-init-95-1", "table"]
