"""A row of the board, and its file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_type_hints

from ...engine.storage import files
from ...registry import schema
from ...registry.errors import UsageError

FOLDER = Path(__file__).with_name("rows")
FILE, ABOUT = "row.json", "about.md"


@dataclass(frozen=True)
class Result:
    """The result of a method in one study.

    Attributes:
        scores: Scores by seed; None if the run failed.
        seconds: Seconds of training of all seeds together.
        cost: These seconds divided by those of `none` on the same machine; None if `none` was not trained there.
        settings: A SHA-256 sum over the study's settings.
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
    """The results of a method.

    `plugins` has the SHA-256 sums of plug-ins by file, for a method that is not part of supple. `code` is a sum over
    supple's own files.
    """

    method: str
    results: Mapping[str, Result]
    plugins: Mapping[str, str]
    versions: Mapping[str, str]
    code: str
    machine: str

    @property
    def hours(self) -> float:
        """The hours of training of all studies and seeds."""
        return sum(result.seconds for result in self.results.values()) / 3600


def read_row(path: Path) -> Row:
    """Return the row in a folder. Raises UsageError if there is none, or it is damaged."""
    file = path / FILE
    try:
        data = json.loads(file.read_bytes())
        return Row(**schema.convert_entries(data, get_type_hints(Row), "", get_type_hints(Row).keys()))
    except FileNotFoundError:
        raise UsageError(f"{path} is not a row of the board: it has no {FILE}") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except (ValueError, AttributeError) as error:
        raise UsageError(f"{file}: {error}") from error


def write_row(path: Path, row: Row) -> None:
    """Write a row to a folder, and an about.md for its author to fill in if there is none."""
    path.mkdir(parents=True, exist_ok=True)
    files.replace(path / FILE, f"{json.dumps(asdict(row), indent=1)}\n".encode())
    if not (path / ABOUT).exists():
        files.replace(path / ABOUT, TEMPLATE.format(method=row.method).encode())


def rows() -> list[Row]:
    """Return the published rows in the order of their folders' names."""
    return [read_row(file.parent) for file in sorted(FOLDER.glob(f"*/{FILE}"))]


TEMPLATE = """# {method}

Method: (the paper by name and arXiv id, or a sentence)

How its hyperparameters were chosen: (with which seeds and how many points; never with the seeds of the board)

Submitted by:
"""
