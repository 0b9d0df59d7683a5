"""Tables of reports in terminals."""

import pytest
from rich.console import Console

from supple.experiments.report.tables import Table, printable

HEADER = ["arm", "measure", "difference", "p", "seeds needed", "by seed"]
ROW = ["snp(lam=0.9)@task", "final return", "−54 [−191, 83]", ".125", "10,000", "−1.36e−06, −4.07e−06, −0.123456"]


@pytest.mark.parametrize("arm", ["snp(lam=0.9)@task", "activation=rand_smooth_leaky(lower=0.3,upper=0.6,c=0.8) · none"])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_narrow_terminal_breaks_words_and_loses_none(monkeypatch: pytest.MonkeyPatch, width: int, arm: str) -> None:
    row = [arm, *ROW[1:]]
    console = Console(width=width, force_terminal=False)
    monkeypatch.setattr("rich.get_console", lambda: console)
    with console.capture() as captured:
        console.print(printable(Table("Difference to none", HEADER, [row], turns=False)))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    below = next(i for i, line in enumerate(lines) if "─" in line) + 1
    assert sorted("".join(lines[below:]).replace(" ", "")) == sorted("".join(row).replace(" ", ""))


def test_a_wide_terminal_breaks_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.get_console", lambda: Console(width=200))
    table = printable(Table("Difference to none", HEADER, [ROW], turns=False))
    longest = [max(map(len, texts)) for texts in zip(["", *HEADER[1:]], ROW, strict=True)]
    assert [column.width for column in table.columns] == longest
