"""What stands beside a sweep's own numbers: those that others have published, and how the arms were tuned."""

from pathlib import Path
from typing import Any, TypedDict

from .. import sealed, typed
from ..errors import RunError
from ..study import Published
from .tables import MISSING, Table, number

TUNED = "tuned.json"


class Tried(TypedDict):
    """One point that tuning tried; score: None where its runs failed. seconds: of their training."""

    arm: str
    score: float | None
    seconds: float


class Tuned(TypedDict):
    """The contents of tuned.json: with which seeds and on which share of a lifetime the arms were tuned, what was
    tried for each arm, by its text with the names of what varies, and what was chosen."""

    method: str
    points: int
    seeds: list[int]
    share: float
    measure: str
    arms: dict[str, list[Tried]]
    chosen: dict[str, str]
    hours: float


def published(sweep: Path) -> dict[str, Published]:
    """Return study → its published numbers, of those that have any. Raises ValueError, in one line."""
    file = sweep / "sweep.json"
    found: dict[str, Published] = _entry(_read(file).get("published", {}), dict[str, Published], "published", file)
    return found


def title(sweep: Path) -> str:
    """Return what a sweep's file calls it; "" where it does not. Raises ValueError, in one line."""
    file = sweep / "sweep.json"
    about: dict[str, Any] = _entry(_read(file).get("about", {}), dict[str, Any], "about", file)
    return str(about.get("title", ""))


def tuning(study: Path) -> list[Table]:
    """Return the tables of how a study's arms were tuned; none where they were not. Raises ValueError, in one line."""
    file = study / TUNED
    if not file.is_file():
        return []
    found: Tuned = _entry(_read(file), Tuned, "", file)
    rows = [_row(template, tried, found["chosen"].get(template)) for template, tried in found["arms"].items()]
    seeds = ", ".join(map(str, found["seeds"]))
    words = (
        f"{found['method']}: {found['points']} points an arm, each with seeds {seeds}, which no run of the study has, "
        f"on {found['share']:.0%} of the lifetime, by {found['measure']}; {number(found['hours'])} hours in all."
    )
    every = [
        [template, each["arm"], number(each["score"])] for template, tried in found["arms"].items() for each in tried
    ]
    return [
        Table("How the arms were tuned", ["arm", "chosen", "its score", "scores of all", "failed"], rows, words, False),
        Table("All points that were tried", ["arm", "point", "score"], every, f"Score: {found['measure']}.", False),
    ]


def _row(template: str, tried: list[Tried], chosen: str | None) -> list[str]:
    scores = [each["score"] for each in tried if each["score"] is not None]
    best = next((each["score"] for each in tried if each["arm"] == chosen), None)
    span = f"{number(min(scores))} to {number(max(scores))}" if scores else MISSING
    return [template, chosen or MISSING, number(best), span, str(len(tried) - len(scores))]


def _read(file: Path) -> dict[str, Any]:
    try:
        value = sealed.read_object(file, str(file.parent))
        return sealed.check_sums(file, value) if sealed.SUMS in value else value
    except RunError as error:
        raise ValueError(str(error)) from error


def _entry(value: Any, wanted: Any, where: str, file: Path) -> Any:
    try:
        return typed.fitted(value, wanted, where)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
