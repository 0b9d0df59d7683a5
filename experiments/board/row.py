"""A row of the board, and its file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_type_hints

from .. import files, typed
from ..errors import UsageError

FOLDER = Path(__file__).with_name("rows")
FILE, ABOUT = "row.json", "about.md"


@dataclass(frozen=True)
class Result:
    """Hold what a method scored in one study.

    scores: by seed, None where the run failed. seconds: of training, of all seeds together. cost: these in parts of
    those of `none` on the same machine, None where it was not trained there. settings: a sum over the study's settings.
    """

    scores: Mapping[str, float | None]
    seconds: float
    cost: float | None
    settings: str

    @property
    def failed(self) -> int:
        """The number of seeds whose run failed."""
        return sum(score is None for score in self.scores.values())


@dataclass(frozen=True)
class Row:
    """Hold what a method scored. plugins: file → SHA-256, of a method that is none of supple's own. code: a sum over
    supple's own files."""

    method: str
    results: Mapping[str, Result]
    plugins: Mapping[str, str]
    versions: Mapping[str, str]
    code: str
    machine: str

    @property
    def hours(self) -> float:
        """The hours of training, of all studies and seeds."""
        return sum(result.seconds for result in self.results.values()) / 3600


def read_row(path: Path) -> Row:
    """Return the row in a folder. Raises UsageError for what is no row."""
    file = path / FILE
    try:
        data = typed.parse(file.read_bytes())
        return Row(**typed.entries(data, get_type_hints(Row), "", get_type_hints(Row).keys()))
    except FileNotFoundError:
        raise UsageError(f"{path} is no row of the board: it has no {FILE}") from None
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"{file}: {error}") from error


def write_row(path: Path, row: Row) -> None:
    """Write a row to a folder, and beside it about.md for its author to fill in, where there is none."""
    path.mkdir(parents=True, exist_ok=True)
    files.replace(path / FILE, f"{json.dumps(asdict(row), indent=1)}\n".encode())
    if not (path / ABOUT).exists():
        files.replace(path / ABOUT, TEMPLATE.format(method=row.method).encode())


def rows() -> list[Row]:
    """Return the published rows, by their folders' names."""
    return [read_row(file.parent) for file in sorted(FOLDER.glob(f"*/{FILE}"))]


TEMPLATE = """# {method}

Method: (the paper, by name and arXiv id, or a sentence)

How its numbers were chosen: (on which seeds and how many points; never on the seeds of the board)

Submitted by:
"""
