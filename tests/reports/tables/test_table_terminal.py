"""Tables of reports in terminals."""

import pytest
from rich.console import Console

from supple.reports.tables.cells import BySeed, Heading, Label, Value
from supple.reports.tables.table import Table

GRID = "MiniGrid-DoorKey-5x5-v0"
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


@pytest.mark.parametrize(
    ("width", "header", "row", "whole"),
    [
        (200, HEADER, ROW, [*HEADER[1:], *ROW]),
        (60, ["arm", GRID, "SFE"], [ROW[0], "0.1398 [0.1383, 0.1414]", "0.135 → 8.83"], [ROW[0], GRID]),
    ],
)
def test_a_wide_terminal_breaks_no_text_and_a_narrower_one_no_name(
    width: int, header: list[str], row: list[str], whole: list[str]
) -> None:
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(Table("Difference to none", header, [row], turns=False))
    assert all(text in captured.get() for text in whole)


@pytest.mark.parametrize(("width", "shown"), [(55, False), (140, True)])
def test_a_narrow_terminal_leaves_out_numbers_by_seed_before_it_breaks_words(width: int, shown: bool) -> None:
    columns: dict[Heading, list[Value]] = {
        "arm": 2 * ["rebalance(lam=5)@task"],
        "variant": ["learning rate 0.05", "learning rate 0.1"],
        "measure": 2 * ["mean excess loss"],
        Label("difference", "by seed"): 2 * [BySeed(dict.fromkeys(range(3), -0.000454))],
    }
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(Table.from_columns("Difference to none", columns))
    assert ("by seed" in captured.get()) is shown
    assert captured.get().count("rebalance(lam=5)@task") == 2
