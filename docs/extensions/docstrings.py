"""Docstrings as reStructuredText.

The docstrings of supple are plain text: single backticks for code, indented blocks for equations and tables, Google's
sections (Args, Returns, Raises) or lines of the form `name: description` for parameters. `rest` converts them. Its
output is valid for every input: whatever it does not recognise becomes a paragraph or a literal block.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from sphinx.application import Sphinx

ITEMS = {"Args": "Parameters", "Arguments": "Parameters", "Raises": "Raises", "Attributes": "Attributes"}
PROSE = {"Returns": "Returns", "Yields": "Yields", "Example": "Example", "Examples": "Examples", "Note": "Note"}
CODE = re.compile(r"(`+)(.+?)\1(?!`)", re.DOTALL)
TERM = re.compile(r"((?:\*{0,2}[a-zA-Z]\w*)(?:, \*{0,2}[a-zA-Z]\w*)*): +(\S.*)")
LABEL = re.compile(r"(Source|Resets|Cost|Released code): +(?=\S)")  # of a method's paragraphs
BULLET = re.compile(r"[-*] +(\S.*)")
COLUMNS = re.compile(r"\S {3,}\S")
SPECIAL = re.compile(r"(\w{1,4}[.)]|\(\w+\)|#\.|[-+*•]) |[:.+=~-]")


def _verbatim(lines: list[str]) -> list[str]:
    return ["::", "", *indented(lines)]


def rest(docstring: str, show: Callable[[list[str]], list[str]] = _verbatim) -> list[str]:
    """Return the lines of a docstring as reStructuredText.

    show: Returns the reStructuredText of an indented block, such as an equation.
    """
    return list(_blocks(inspect.cleandoc(docstring).splitlines(), show))


def first_sentence(docstring: str | None) -> str:
    """Return the first sentence of a docstring, or an empty text without one."""
    text = " ".join(inspect.cleandoc(docstring or "").split("\n\n")[0].split())
    found = re.match(r"(.+?(?<!e\.g)(?<!i\.e)(?<!et al)(?<!eq)\.)(?: |$)", text)
    return found[1] if found else text.rstrip(":")


def inline(text: str) -> str:
    """Return one line of reStructuredText in which backticks mean code and nothing else has a meaning."""
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts.append(_escaped(text[end : code.start()]))
        parts.append(literal(" ".join(code[2].split())))
        end = code.end()
    parts.append(_escaped(text[end:]))
    return "".join(parts).replace("\n", " ").removeprefix("\\ ")


def literal(text: str) -> str:
    """Return code within a line, which may stand next to letters."""
    return f"\\ ``{text}``\\ "


def _escaped(text: str) -> str:
    text = re.sub(r"([\\*|`_])", r"\\\1", " ".join(text.split("\n"))).replace("::", ":\\:")
    return re.sub(r"(?<![\w*)])\\\*([^\W\d_]+(?: [^\W\d_]+)*)\\\*(?![\w*(])", r"\\ *\1*\\ ", text)


def paragraph(text: str) -> str:
    """Return a paragraph, whose beginning is not taken for a list or a directive."""
    text = " ".join(text.split())
    return ("\\" if SPECIAL.match(text) else "") + inline(text)


def indented(lines: list[str], by: str = "   ") -> list[str]:
    return [by + line if line else "" for line in lines]


def _blocks(lines: list[str], show: Callable[[list[str]], list[str]]) -> Iterator[str]:
    for chunk in _chunks(lines):
        head = chunk[0].rstrip(":")
        if len(chunk) > 1 and chunk[0].endswith(":") and head in ITEMS | PROSE and chunk[1][:1] in ("", " "):
            body = inspect.cleandoc("\n".join(["", *chunk[1:]])).splitlines()
            made = _items(body) if head in ITEMS else list(_blocks(body, show))
            yield from [f":{(ITEMS | PROSE)[head]}:", *indented(made), ""]
        elif chunk[0][:1] == " ":
            yield from [*show(inspect.cleandoc("\n".join(["", *chunk])).splitlines()), ""]
        elif chunk[0].startswith(">>> ") or any(COLUMNS.search(line) for line in chunk):
            yield from [*_verbatim(chunk), ""]
        elif BULLET.match(chunk[0]):
            yield from [*_bullets(chunk), ""]
        elif label := LABEL.match(chunk[0]):
            yield from [f"**{label[1]}.** {inline(LABEL.sub('', ' '.join(chunk), count=1))}", ""]
        elif TERM.match(chunk[0]):
            yield from [*_items(chunk), ""]
        else:
            yield from [paragraph("\n".join(chunk)), ""]


def _chunks(lines: list[str]) -> Iterator[list[str]]:
    """Split at empty lines, but keep sections and literal blocks whole; an indented block ends a paragraph."""
    chunk: list[str] = []
    for line in [*lines, ""]:
        inside = bool(chunk) and (chunk[0][:1] == " " or chunk[0].rstrip(":") in ITEMS | PROSE)
        if inside and (not line.strip() or line[0] == " "):
            chunk.append(line.rstrip())
        elif inside or not line.strip():
            yield from filter(None, ["\n".join(chunk).rstrip().splitlines()])
            chunk = [line] if line.strip() else []
        elif line[0] == " " and chunk and not (TERM.match(chunk[0]) or BULLET.match(chunk[0])):
            yield chunk
            chunk = [line.rstrip()]
        else:
            chunk.append(line.rstrip())
    yield from filter(None, ["\n".join(chunk).rstrip().splitlines()])


def _items(lines: list[str]) -> list[str]:
    """Return a list of names with descriptions, from lines `name: description` and their continuations."""
    items: list[tuple[str, str]] = []
    for line in lines:
        found = TERM.match(line)
        if found:
            items.append((found[1], found[2]))
        elif items:
            items[-1] = (items[-1][0], f"{items[-1][1]} {line.strip()}")
        elif line.strip():
            items.append(("", line.strip()))
    return [f"- {literal(name)} – {inline(text)}" if name else f"- {paragraph(text)}" for name, text in items]


def _bullets(lines: list[str]) -> list[str]:
    items: list[str] = []
    for line in lines:
        if found := BULLET.match(line):
            items.append(found[1])
        else:
            items[-1] += f" {line.strip()}"
    return [f"- {paragraph(item)}" for item in items]


def _process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    text = "\n".join(lines)
    if what == "class" and text.startswith(f"{name.rpartition('.')[2]}("):  # made by dataclasses and namedtuples
        text = ""
    lines[:] = rest(text)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
