"""Modules, names and files that pages, docstrings, comments and templates speak of are there."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS: list[str] = PROJECT["tool"]["supple"]["rooms"]
FOLDERS = (*ROOMS, "package", "tests", "benchmarks", "docs")

FULL = re.compile(rf"(?<![\w./-])supple\.(?:{'|'.join(ROOMS)})(?:\.[A-Za-z]\w*)*")
LOGGERS = {"supple.envs.mujoco"}
DOTTED = re.compile(r"`([a-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`")
OBJECTS = {
    "data",
    "learner",
    "metrics",
    "model",
    "settings",
    "supple",
    "view",
}  # that texts speak of, and modules of that name
SUFFIXES = {"bin", "py", "toml"}
PLACE = re.compile(rf"(?<![\w./<-])(?:{'|'.join(FOLDERS)})/[\w./+*-]*\w")
NOT_HERE = {
    *("docs/_build", "interventions/NAME.py", "tests/a/test_b.py"),
    "agents/agents.py",  # in the code released with a paper
}


@cache
def texts(file: Path) -> str:
    """Return the text of a page, or the strings and comments of a Python file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(token.string for token in tokens if token.type in (tokenize.STRING, tokenize.COMMENT))


def files() -> list[Path]:
    inside = [
        file
        for folder in FOLDERS
        for kind in ("*.py", "*.md", "*.txt")
        for file in (ROOT / folder).rglob(kind)
        if not {"_build", "generated", "results", "rows"} & set(file.relative_to(ROOT).parts)
    ]
    return sorted({*inside, ROOT / "README.md", ROOT / "CONTRIBUTING.md"} - {Path(__file__)})


def names_in(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements of a module define, import or export."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets) and node.value:
                yield from (part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        for block in ("body", "orelse", "handlers") if isinstance(node, ast.If | ast.Try | ast.With) else ():
            yield from names_in(getattr(node, block, []))


@cache
def modules() -> dict[str, set[str]]:
    """Return the names in each module of the library, submodules included."""
    found: dict[str, set[str]] = {}
    for room in ("package", *ROOMS):
        for file in (ROOT / room).rglob("*.py"):
            parts = [*file.relative_to(ROOT).with_suffix("").parts]
            parts = ["supple", *(parts if room != "package" else parts[1:])]
            dotted = ".".join(parts if parts[-1] != "__init__" else parts[:-1])
            found[dotted] = {*names_in(ast.parse(file.read_text()).body)}
    for dotted in list(found):
        parent, _, name = dotted.rpartition(".")
        if parent in found:
            found[parent].add(name)
    return found


def is_there(dotted: str) -> bool:
    """Return whether this is a module of the library, or a name in one; parts of that name are not looked at."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        if (module := ".".join(parts[:count])) in modules():
            return count == len(parts) or parts[count] in modules()[module]
    return False


@pytest.mark.slow
def test_modules_that_texts_name_in_full_are_there() -> None:
    names = {name: file for file in files() for name in FULL.findall(texts(file))}
    assert not [f"{file}: {name}" for name, file in names.items() if not is_there(name) and name not in LOGGERS]


@pytest.mark.slow
def test_names_that_follow_the_name_of_a_module_are_there() -> None:
    """As in `differences.verdict`: one of the modules whose path ends with the first part has the others."""
    ending: dict[str, list[str]] = {}
    for module in modules():
        ending.setdefault(module.rpartition(".")[2], []).append(module)
    ours = [file for file in files() if file.suffix == ".py" and file.relative_to(ROOT).parts[0] in ROOMS]
    wrong = []
    for place, name in ((file, name) for file in ours for name in DOTTED.findall(texts(file))):
        first, _, others = name.partition(".")
        homes = ending.get(first, []) if first not in OBJECTS and others not in SUFFIXES else []
        if homes and not any(is_there(f"{module}.{others}") for module in homes):
            wrong.append(f"{place}: {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_files_that_texts_name_are_there() -> None:
    wrong = [
        f"{file}: {place}"
        for file in files()
        for place in PLACE.findall(texts(file))
        if (file.suffix == ".md" or place.endswith(".py")) and place not in NOT_HERE
        if not any(any(base.glob(place)) for base in (ROOT, ROOT / "docs", ROOT / "tests"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_programs_that_no_test_runs_import_what_is_there() -> None:
    """No type checker reads benchmarks, the programs of the pages, and those of the stress tests."""
    programs = [file for folder in ("benchmarks", "docs", "tests/stress") for file in (ROOT / folder).rglob("*.py")]
    wrong = [
        f"{file}: {node.module}.{alias.name}"
        for file in programs
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("supple.")
        for alias in node.names
        if not is_there(f"{node.module}.{alias.name}")
    ]
    assert not wrong, "\n".join(wrong)
