"""Tables of reports in terminals."""

import pytest
from rich.console import Console

from supple.experiments.report import tables
from supple.experiments.report.tables import Table, printable

HEADER = ["arm", "measure", "difference", "p", "seeds needed", "by seed"]
ROW = ["snp(lam=0.9)@task", "final return", "−54 [−191, 83]", ".125", "10,000", "−1.36e−06, −4.07e−06, −0.123456"]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_narrow_terminal_breaks_words_and_loses_none(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    console = Console(width=width, force_terminal=False)
    monkeypatch.setattr("rich.get_console", lambda: console)
    with console.capture() as captured:
        console.print(printable(Table("Difference to none", HEADER, [ROW], turns=False)))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    below = next(i for i, line in enumerate(lines) if "─" in line) + 1
    assert sorted("".join(lines[below:]).replace(" ", "")) == sorted("".join(ROW).replace(" ", ""))


def test_a_wide_terminal_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(width=200)
    monkeypatch.setattr("rich.get_console", lambda: console)
    table = printable(Table("Difference to none", HEADER, [ROW], turns=False))
    assert [column.min_width for column in table.columns[1:]] == [
        min(max(map(len, f"{name} {text}".split())), tables.WORDS[0])
        for name, text in zip(HEADER[1:], ROW[1:], strict=True)
    ]
