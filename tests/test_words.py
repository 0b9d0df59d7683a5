"""How the library reads: what the first line of a docstring says, and that papers are called by their names."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("package", *tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["supple"]["rooms"])
TEXTS = (*ROOMS, "tests", "benchmarks", "docs")
CLAUSES = {"What", "Of", "Where", "From", "All", "How", "Which", "Why", "Whoever", "Whatever", "Whether", "When"}
NOUNS = CLAUSES | {"The", "A", "An", "Its", "One", "Each", "Every", "Any", "So", "In", "At", "By", "As", "Only", "For"}

# Turns of phrase that docs/contributing/writing.md rules out, and that stood here once.
TURNS = re.compile(
    r"\bin little\b|\bno agents\b|is at its end|[Tt]akes? up what|[Gg]oes on as|\b(begin|began|begins|drawn) anew\b"
    r"|what is no |is due any\b|all else (is|as|in)\b"
)
UNREAD = ("docs/contributing/writing.md", "docs/_build", "docs/reference/generated")
WORDS_OF_A_PAGE = 3_000  # at most, as `wc -w` counts; long tables are files beside it
WORDS_IN_ALL = 60_000

Function = ast.FunctionDef | ast.AsyncFunctionDef


def definitions(node: ast.AST) -> Iterator[ast.ClassDef | Function]:
    """Yield the public classes, functions and methods that a module defines."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | Function):
            if not child.name.startswith("_"):
                yield child
                if isinstance(child, ast.ClassDef):
                    yield from definitions(child)
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from definitions(child)


def is_property(node: ast.ClassDef | Function) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def says_what_it_does(line: str) -> bool:
    """Return whether a sentence begins with a verb in the imperative, as far as the look of its first word tells."""
    word = re.match(r"[A-Z][a-z]+\b", line)
    if word is None or word[0] in NOUNS:
        return False
    return not re.search(r"[^s]s$|[^e]ed$", word[0])  # "Returns", "Called"; "Pass", "Seed" are verbs


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_a_public_docstring_begins_with_what_the_function_does(room: str) -> None:
    wrong = []
    for file in sorted((ROOT / room).rglob("*.py")):
        for node in definitions(ast.parse(file.read_text())):
            line = (ast.get_docstring(node) or "").split("\n")[0]
            if isinstance(node, ast.ClassDef) or is_property(node):
                fine = line.split(" ")[0] not in CLAUSES - {"Whether"}  # "Whether …" is said of a property
            else:
                fine = not line or says_what_it_does(line)
            if not fine:
                wrong.append(f"{file.relative_to(ROOT)}:{node.lineno} {node.name}: {line}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "fine"),
    [
        ("Return the state.", True),
        ("Pass it on.", True),
        ("Seed the generator.", True),
        ("What it does.", False),
        ("The state.", False),
        ("Returns the state.", False),
        ("Called at the end.", False),
        ("‖W‖², a number.", False),
        ("DQN's loss.", False),
    ],
)
def test_what_counts_as_saying_what_a_function_does(line: str, fine: bool) -> None:
    assert says_what_it_does(line) == fine


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
