"""Tables of names, and the nearest name to one that is not there."""

import subprocess
import sys
from typing import Any

import pytest

from supple.registry import Registry, UnknownName, did_you_mean, near_names


def test_unknown_names_suggest_the_nearest():
    table: Registry[Any] = Registry("intervention")
    table.register("fire")(dict)
    table.register("snp")(list)
    assert table.get("fire") is dict
    assert table.names() == ["fire", "snp"]
    with pytest.raises(UnknownName) as caught:
        table.get("fier")
    assert str(caught.value) == "unknown intervention 'fier': did you mean 'fire'? (known: fire, snp)"
    with pytest.raises(UnknownName) as caught:
        table.get("xyz")
    assert str(caught.value) == "unknown intervention 'xyz' (known: fire, snp)"
    with pytest.raises(ValueError, match="'fire' is registered twice"):
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


def test_the_registry_needs_the_standard_library_alone() -> None:
    code = "import sys, supple.registry; print(sorted({'torch', 'numpy', 'gymnasium'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
