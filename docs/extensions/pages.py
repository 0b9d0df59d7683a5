"""What the generators of pages share: reStructuredText, and files that are only written if they change."""

import inspect
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

FOLDER = "reference/generated"  # below docs; ignored by git
REPOSITORY = Path(__file__).parents[2]
ADDRESS = os.environ.get("SUPPLE_REPOSITORY", "").rstrip("/")  # of the repository on the web, if it has one


class Pages:
    """The generated pages. `remove_others` deletes the pages of former builds that this one did not write."""

    def __init__(self, docs: Path) -> None:
        self.folder = docs / FOLDER
        self.written: set[Path] = set()

    def write(self, name: str, lines: Iterable[str]) -> None:
        file = self.folder / f"{name}.rst"
        text = "\n".join(lines).rstrip() + "\n"
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
        self.written.add(file)

    def remove_others(self) -> None:
        for file in set(self.folder.rglob("*.rst")) - self.written:
            file.unlink()


def title(text: str, line: str = "=") -> list[str]:
    return [text, line * (len(text) + 8), ""]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> list[str]:
    """Return a table of cells, each one line of reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in [header, *rows]:
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return [*lines, ""]


def toctree(names: Iterable[str], depth: int = 1, hidden: bool = False) -> list[str]:
    options = ["   :hidden:"] if hidden else []
    return [".. toctree::", f"   :maxdepth: {depth}", *options, "", *(f"   {name}" for name in names), ""]


def code(text: str, language: str = "text") -> list[str]:
    return [f".. code-block:: {language}", "", *(f"   {line}" if line else "" for line in text.splitlines()), ""]


def source(thing: Any) -> tuple[str, int]:
    """Return the file of a class or function below the repository, and its line; an empty text for other things."""
    try:
        thing = inspect.unwrap(thing)
        file = Path(inspect.getsourcefile(thing) or "").resolve()
        return file.relative_to(REPOSITORY).as_posix(), inspect.getsourcelines(thing)[1]
    except (OSError, TypeError, ValueError):
        return "", 0


def address_of(thing: Any) -> str | None:
    """Return the address of the source of a class or function, or None if it has none."""
    file, line = source(thing)
    return f"{ADDRESS}/blob/main/{file}#L{line}" if ADDRESS and file else None


def source_link(thing: Any) -> str:
    """Return the name of the file of a class or function, with a link to it if the repository has an address."""
    file, address = source(thing)[0], address_of(thing)
    return f"`{file} <{address}>`__" if address else f"``{file}``"
