"""The files of a report for use elsewhere: tables as CSV and LaTeX, figures as SVG and PNG."""

import csv
import io
import json
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain, count
from math import isnan
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supple.engine.storage.strict_json import strict_json
from supple.reports.tables.cells import Scalar, Value, parts
from supple.reports.tables.table import Table

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot

FOLDER = "tables"
LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"$<$", ">": r"$>$", "|": r"$|$",
    "−": r"$-$", "–": "--", "→": r"$\to$", "×": r"$\times$", "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$",
    "·": r"$\cdot$", "∞": r"$\infty$",
    "λ": r"$\lambda$", "γ": r"$\gamma$", "Δ": r"$\Delta$", "τ": r"$\tau$", "²": r"$^2$", "₁": r"$_1$", "₂": r"$_2$",
    "ᵀ": r"$^\top$", "‖": r"$\|$", "½": r"$\frac{1}{2}$", "≈": r"$\approx$", "’": "'",
}  # fmt: skip


def write(folder: Path, tables: Sequence[Table], plots: "Sequence[Plot]") -> None:
    """Write every figure as NAME.png and NAME.svg, and every table as tables/NAME.csv and tables/NAME.tex."""
    (folder / FOLDER).mkdir()
    for name, table in with_file_names(tables):
        put(folder / FOLDER / f"{name}.csv", as_csv(table))
        put(folder / FOLDER / f"{name}.tex", as_latex(table))
    for plot in plots:
        plot.save(folder)


def put(file: Path, text: str) -> None:
    """Write a text as UTF-8."""
    file.write_text(text, encoding="utf-8", newline="\n")


def put_json(file: Path, value: Any) -> None:
    """Write strict JSON as UTF-8."""
    put(file, json.dumps(strict_json(value), indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def with_file_names(tables: Sequence[Table]) -> list[tuple[str, Table]]:
    """Return each table with a file name made from its title, numbered if it is not unique."""
    found: dict[str, Table] = {}
    for table in tables:
        plain = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")[:80] or "table"
        found[_unused(plain, (f"{plain}-{i}" for i in count(len(found))), found)] = table
    return list(found.items())


def as_csv(table: Table) -> str:
    """Return a table as CSV, with one number in a cell and all of its digits.

    A number with an interval becomes three columns, a number before and after an intervention two, and numbers by seed
    one for each seed. Shares are not in %. Missing values are empty, and an interval without bounds ends at `-inf` and
    `inf`. Headings are unique: the second column of an equal name is `NAME (2)`.
    """
    columns = chain.from_iterable(map(_split, zip(table.header, *table.rows, strict=True)))
    unique: dict[str, list[str]] = {}
    for heading, *cells in columns:
        unique[_unused(heading, (f"{heading} ({i})" for i in count(2)), unique)] = cells
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([list(unique), *zip(*unique.values(), strict=True)])
    return text.getvalue()


def _split(column: Sequence[Value]) -> Iterator[list[str]]:
    """Yield the columns of the file, with their headings, for one column of a table."""
    heading, *cells = map(parts, column)
    plain = str(heading[""]).replace("−", "-")
    for ending in dict.fromkeys(chain.from_iterable(cells)) or [""]:
        yield [_field(plain + ending), *(_field(cell.get(ending)) for cell in cells)]


def _unused(name: str, numbered: Iterable[str], used: Container[str]) -> str:
    """Return the name, or the first of the numbered ones if it is used already."""
    return next(each for each in chain([name], numbered) if each not in used)


def as_latex(table: Table) -> str:
    """Return a table for LaTeX with the package booktabs. The title is its caption, and its words are a comment."""
    header, *rows = table.texts
    lines = [f"% {line}" for line in table.words.split("\n")] if table.words else []
    lines += [r"\begin{table}", r"\centering", rf"\caption{{{escape_latex(table.title)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule", _row(header), r"\midrule"]
    lines += [*map(_row, rows), r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def as_markdown(table: Table) -> str:
    """Return a table as Markdown. A table with one row is turned: each column becomes a row."""
    lines = [*zip(*table.texts, strict=True)] if len(table.rows) == 1 else table.texts
    escape = methodcaller("replace", "|", r"\|")
    header, *rows = (" | ".join(map(escape, line)) for line in lines)
    rule = " | ".join(["---", *(["--:"] * (len(lines[0]) - 1))])
    return "\n".join(f"| {line} |" for line in (header, rule, *rows))


def escape_latex(text: str) -> str:
    """Return a text with LaTeX's special characters escaped."""
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


def _row(cells: Sequence[str]) -> str:
    text = " & ".join(map(escape_latex, cells)) + r" \\"
    return f"{{}}{text}" if text.startswith(("[", "*")) else text  # which would be an option of the line before


def _field(value: Scalar) -> str:
    """Return a number with all digits, or a text."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "" if isnan(value) else repr(float(value))  # the repr of NumPy's floats names their type
    return value or ""
