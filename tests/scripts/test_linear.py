"""`supple linear figN` writes a picture and its numbers, and changes no other file."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supple.reports.figures.style import new_figure
from supple.scripts import linear


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the module of fig2, and return the numbers that it is given to draw."""
    seen: dict[str, Any] = {}

    def numbers(seed: int = 0) -> dict[str, Any]:
        return {"curve": [1.0, 0.5], "difference": 2e-3, "drawn with": seed}

    def draw(found: dict[str, Any]) -> Any:
        seen.update(found)
        return new_figure(1.0)

    module = SimpleNamespace(numbers=numbers, draw=draw)
    monkeypatch.setitem(sys.modules, "supple.tracks.linear.figures.fig2", module)
    return seen


def test_a_figure_writes_its_picture_and_its_numbers(
    figure: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "folder"
    linear.main(["fig2", "--seed", "3", "--out", str(folder)])
    assert sorted(path.name for path in folder.iterdir()) == ["fig2.json", "fig2.png"]
    numbers = json.loads((folder / "fig2.json").read_text())
    assert numbers == figure
    assert (numbers["figure"], numbers["seed"], numbers["drawn with"]) == ("fig2", 3, 3)
    assert numbers["command"] == f"supple linear fig2 --seed 3 --out {folder}"
    assert {"supple", "numpy", "python"} <= numbers["versions"].keys()
    assert (folder / "fig2.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert f"{folder}/fig2.png" in printed
    assert "theory and simulation differ by at most 2.0e-03" in printed


def test_a_figure_replaces_its_own_files_only(
    figure: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fig2.json", "fig3.json", "notes.txt"):
        (tmp_path / name).write_text("old")
    linear.main(["fig2", "--out", str(tmp_path)])
    assert json.loads((tmp_path / "fig2.json").read_text())["figure"] == "fig2"
    assert [(tmp_path / name).read_text() for name in ("fig3.json", "notes.txt")] == ["old", "old"]
    module = sys.modules["supple.tracks.linear.figures.fig2"]
    monkeypatch.setattr(module, "draw", lambda found: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        linear.main(["fig2", "--seed", "1", "--out", str(tmp_path)])
    assert json.loads((tmp_path / "fig2.json").read_text())["seed"] == 0, "what was there stays until all is made"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fig2.json", "fig2.png", "fig3.json", "notes.txt"]


def test_figures_draws_all_figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[str] = []
    monkeypatch.setattr(linear, "make_figure", lambda name, *_: made.append(name) or {})
    linear.main(["figures", "--out", str(tmp_path)])
    assert made == ["fig1", "fig2", "fig3", "fig4", "fig5", "fig11", "fig12", "fig13", "fig14"]
