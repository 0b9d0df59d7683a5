"""The files of a report for use elsewhere: tables as CSV and LaTeX, figures as SVG and PNG."""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .tables import MISSING, Table

if TYPE_CHECKING:
    from .style import Plot

FOLDER = "tables"
NUMBER = r"[−+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[−+]?\d+)?"
ESTIMATE = re.compile(rf"({NUMBER}) \[({NUMBER}), ({NUMBER})\]")
LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"$<$", ">": r"$>$", "|": r"$|$",
    "−": r"$-$", "–": "--", "→": r"$\to$", "×": r"$\times$", "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$",
    "·": r"$\cdot$",
    "λ": r"$\lambda$", "γ": r"$\gamma$", "Δ": r"$\Delta$", "τ": r"$\tau$", "²": r"$^2$", "₁": r"$_1$", "₂": r"$_2$",
    "ᵀ": r"$^\top$", "‖": r"$\|$", "½": r"$\frac{1}{2}$", "≈": r"$\approx$", "’": "'",
}  # fmt: skip


def write(folder: Path, tables: Sequence[Table], plots: "Sequence[Plot]") -> None:
    """Write every figure as NAME.png and NAME.svg, and every table as tables/NAME.csv and tables/NAME.tex."""
    (folder / FOLDER).mkdir()
    for name, table in named(tables):
        (folder / FOLDER / f"{name}.csv").write_text(as_csv(table), encoding="utf-8", newline="\n")
        (folder / FOLDER / f"{name}.tex").write_text(as_latex(table), encoding="utf-8", newline="\n")
    for plot in plots:
        plot.save(folder)


def named(tables: Sequence[Table]) -> list[tuple[str, Table]]:
    """Return each table with a file name made from its title, numbered if it is not unique."""
    found: dict[str, Table] = {}
    for table in tables:
        plain = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")[:80] or "table"
        found[plain if plain not in found else f"{plain}-{len(found)}"] = table
    return list(found.items())


def as_csv(table: Table) -> str:
    """Return a table as CSV.

    Numbers have no thousands separators. A number with an interval becomes three columns: the number, and the low and
    high end. Missing values are empty.
    """
    columns: list[list[str]] = []
    for header, *cells in zip(table.header, *table.rows, strict=True):
        found = [ESTIMATE.fullmatch(cell) for cell in cells]
        if not any(found):
            columns.append([header, *map(_plain, cells)])
            continue
        split = [match.groups() if match else (cell, "", "") for match, cell in zip(found, cells, strict=True)]
        for i, end in enumerate(("", " low", " high")):
            columns.append([header + end, *(_plain(each[i]) for each in split)])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(zip(*columns, strict=True))
    return text.getvalue()


def as_latex(table: Table) -> str:
    """Return a table for LaTeX with the package booktabs. The title is its caption, and its words are a comment."""
    lines = [f"% {line}" for line in table.words.splitlines()]
    lines += [r"\begin{table}", r"\centering", rf"\caption{{{escaped(table.title)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}", r"\toprule", _row(table.header), r"\midrule"]
    lines += [*map(_row, table.rows), r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a text with LaTeX's special characters escaped."""
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"


def _plain(cell: str) -> str:
    if cell == MISSING:
        return ""
    return cell.replace(",", "").replace("−", "-") if re.fullmatch(NUMBER, cell) else cell
