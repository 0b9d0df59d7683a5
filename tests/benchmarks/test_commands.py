"""What pages say to type exists: programs, and the names of entries and races after them."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
PAGES = [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
COMMANDS = {
    r"measure\.py((?: [a-z][a-z0-9-]*)+)": "parts/entries.py",
    r"race\.py --races((?: [a-z][a-z0-9-]*)+)": "beside/races.py",
}


def names_of(file: str) -> set[str]:
    """Return the keys of the file's table, without importing what it measures."""
    tree = ast.parse((BENCHMARKS / file).read_text())
    tables = [node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)]
    return {ast.literal_eval(key) for table in tables for key in table.keys if key}


@pytest.mark.parametrize("pattern", COMMANDS)
def test_every_entry_that_a_page_names_exists(pattern: str) -> None:
    names = names_of(COMMANDS[pattern])
    for page in PAGES:
        for words in re.findall(pattern, page.read_text()):
            assert set(words.split()) <= names, f"{page.name}: {words}"


@pytest.mark.parametrize("file", COMMANDS.values())
def test_every_entry_names_a_function_that_exists(file: str) -> None:
    places = set(re.findall(r"[\"'](\w+):(\w+)[\"' ]", (BENCHMARKS / file).read_text()))
    assert len(places) > 10
    for module, function in places:
        tree = ast.parse((BENCHMARKS / Path(file).parent / f"{module}.py").read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (module, function)
