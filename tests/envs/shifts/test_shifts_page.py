"""The examples of docs/reference/worlds.md run; its table, shifts.csv, names every shift with its parameters."""

import csv
import re
from pathlib import Path

import pytest

from supple.envs import shifts
from supple.scripts.list import parameters

REFERENCE = Path(__file__).parents[3] / "docs/reference"
PAGE = (REFERENCE / "worlds.md").read_text()


def test_every_example_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shifts, "_entries", dict(shifts.entries))
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        exec(block, names)
    assert re.fullmatch(
        r"\{'offset': \{'offset': \[.*\]\}, 'flip_actions': \{'reversed': False\}\}\n", capsys.readouterr().out
    )


def test_the_page_lists_every_shift_with_its_parameters() -> None:
    common = ", over=0, from_task=1"
    known = {f"{name}{parameters(entry)}".replace(common, "") for name, entry in shifts.entries.items()}
    known = {re.sub(r"\((over=0, from_task=1)?\)", "", text) for text in known}
    with open(REFERENCE / "shifts.csv", newline="") as rows:
        assert {row["shift"].strip("`") for row in csv.DictReader(rows)} == known


def test_the_page_says_how_each_shift_can_be_gradual() -> None:
    gradual = PAGE[PAGE.index("### Gradual changes") : PAGE.index("### Order")].split(
        "Shifts\nwithout intermediate values"
    )
    for text, way in zip(gradual, ("numbers", "episodes"), strict=True):
        found = {name for name in re.findall(r"`(\w+)`", text) if name in shifts.entries}
        assert found == {name for name, entry in shifts.entries.items() if entry.gradual == way} - {"none"}
