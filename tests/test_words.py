"""How the library reads: papers are called by their names, turns of phrase that were ruled out stay out."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("package", *tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["supple"]["rooms"])
TEXTS = (*ROOMS, "tests", "benchmarks", "docs")

# Turns of phrase that docs/contributing/writing.md rules out, and that stood here once.
TURNS = re.compile(
    r"\bin little\b|\bno agents\b|is at its end|[Tt]akes? up what|[Gg]oes on as|\b(begin|began|begins|drawn) anew\b"
    r"|what is no |is due any\b|all else (is|as|in)\b"
)
UNREAD = ("docs/contributing/writing.md", "docs/_build", "docs/reference/generated")
WORDS_OF_A_PAGE = 3_000  # at most, as `wc -w` counts; long tables are files beside it
WORDS_IN_ALL = 62_000


@pytest.mark.slow
def test_papers_are_called_by_their_names() -> None:
    numbered = re.compile(r"\bpapers?\s+0\d\d\b", re.IGNORECASE)
    files = [file for folder in TEXTS for kind in ("*.py", "*.md") for file in (ROOT / folder).rglob(kind)]
    files += ROOT.glob("*.md")
    assert [str(file.relative_to(ROOT)) for file in files if numbered.search(file.read_text())] == []


def test_turns_that_were_ruled_out_do_not_come_back() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    files += [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    found = {
        f"{name}: {turn[0]}"
        for file in files
        if not (name := str(file.relative_to(ROOT))).startswith(UNREAD)
        for turn in TURNS.finditer(file.read_text())
    }
    assert not found, "\n".join(sorted(found))


def test_pages_are_short() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    count = {
        name: len(page.read_text().split())
        for page in pages
        if not (name := str(page.relative_to(ROOT))).startswith(UNREAD[1:])
    }
    assert [f"{name}: {words} words" for name, words in count.items() if words > WORDS_OF_A_PAGE] == []
    assert sum(count.values()) <= WORDS_IN_ALL
