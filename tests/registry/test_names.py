"""Tables of names, and the nearest name to one that is not there."""

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from supple.registry import BrokenPackage, Registry, UnknownName, did_you_mean, near_names


def test_unknown_names_suggest_the_nearest():
    table: Registry[Any] = Registry("intervention")
    table.register("fire")(dict)
    table.register("snp")(list)
    assert table.get("fire") is dict
    assert table.names() == ["fire", "snp"]
    with pytest.raises(UnknownName) as caught:
        table.get("fier")
    assert str(caught.value) == "unknown intervention 'fier': did you mean 'fire'? (known: fire, snp)"
    with pytest.raises(ValueError, match="the intervention 'fire' exists already: choose another name"):
        table.register("fire")(dict)


def test_entries_are_a_live_view_that_cannot_be_written_to() -> None:
    table: Registry[int] = Registry("number", {"one": 1})
    entries = table.entries
    table.register("two")(2)
    assert dict(entries) == {"one": 1, "two": 2}
    with pytest.raises(TypeError):
        entries["three"] = 3  # type: ignore[index]


def test_near_names_come_nearest_first() -> None:
    known = ("walker2d", "walker", "hopper")
    assert near_names("walkr", known, most=3) == ["walker", "walker2d"]
    assert did_you_mean("walkr", known) == ": did you mean 'walker'?"
    assert near_names("xyz", known) == []
    assert did_you_mean("xyz", known) == ""


@pytest.mark.slow
def test_the_registry_needs_the_standard_library_alone() -> None:
    code = "import sys, supple.registry; print(sorted({'torch', 'numpy', 'gymnasium'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> Registry[int]:
    """A registry whose entries come from an installed package with this code."""
    (folder / "others_numbers.py").write_text(code)
    info = folder / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{folder.name}]\nnumbers = others_numbers\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, "others_table", types.SimpleNamespace(table=Registry("number", {"one": 1})))
    monkeypatch.delitem(sys.modules, "others_numbers", raising=False)
    table: Registry[int] = sys.modules["others_table"].table
    table.groups = (folder.name,)
    return table


def test_an_installed_package_registers_when_the_table_is_first_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = installed(
        tmp_path, monkeypatch, "from others_table import table\ntable.register('two')(2)\ntable.names()\n"
    )
    entries = table.entries
    table.register("three")(3)
    assert "others_numbers" not in sys.modules
    assert dict(entries) == {"one": 1, "three": 3, "two": 2}
    assert table.get("two") == 2


@pytest.mark.parametrize("code", ["raise OSError('boom')", "1 +"])
def test_an_installed_package_that_cannot_be_imported_is_named_in_one_line(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = installed(tmp_path, monkeypatch, code)
    with pytest.raises(BrokenPackage, match=r"the installed package others 1\.0 cannot be loaded: ") as caught:
        table.names()
    assert "\n" not in str(caught.value)
