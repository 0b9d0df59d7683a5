"""Tables of reports in terminals."""

import pytest
from rich.console import Console

from supple.reports.tables.table import Table

HEADER = ["arm", "measure", "difference", "p", "seeds needed", "by seed"]
ROW = ["snp(lam=0.9)@task", "final return", "−54 [−191, 83]", ".125", "10,000", "−1.36e−06, −4.07e−06, −0.123456"]


@pytest.mark.parametrize("arm", ["snp(lam=0.9)@task", "activation=rand_smooth_leaky(lower=0.3,upper=0.6,c=0.8) · none"])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_narrow_terminal_breaks_words_and_loses_none(width: int, arm: str) -> None:
    row = [arm, *ROW[1:]]
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(Table("Difference to none", HEADER, [row], turns=False))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    below = next(i for i, line in enumerate(lines) if "─" in line) + 1
    assert sorted("".join(lines[below:]).replace(" ", "")) == sorted("".join(row).replace(" ", ""))
