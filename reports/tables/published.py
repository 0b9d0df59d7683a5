"""Additional data for the report of a sweep: published numbers, and how the arms were tuned."""

from pathlib import Path
from typing import Any, TypedDict

from ...engine.storage import signed_json
from ...experiments.sweeps.study import Published
from ...registry import schema
from ...registry.errors import RunError
from .tables import MISSING, Table, number

TUNED = "tuned.json"


class Tried(TypedDict):
    """One point of a search. `score` is None if one of its runs failed. `seconds` are of training."""

    arm: str
    score: float | None
    seconds: float


class Tuned(TypedDict):
    """The contents of tuned.json: the rule of the search, and the points and chosen point of each arm.

    Arms are named by their text, with the names of searched values in braces.
    """

    method: str
    points: int
    seeds: list[int]
    share: float
    measure: str
    arms: dict[str, list[Tried]]
    chosen: dict[str, str]
    hours: float


def published(sweep: Path) -> dict[str, Published]:
    """Return the published numbers of a sweep's studies, by study. Raises ValueError for a damaged file."""
    file = sweep / "sweep.json"
    found: dict[str, Published] = _entry(_read(file).get("published", {}), dict[str, Published], "published", file)
    return found


def title(sweep: Path) -> str:
    """Return the title of a sweep, or "" if its file has none. Raises ValueError for a damaged file."""
    file = sweep / "sweep.json"
    about: dict[str, Any] = _entry(_read(file).get("about", {}), dict[str, Any], "about", file)
    return str(about.get("title", ""))


def tuning(study: Path) -> list[Table]:
    """Return the tables of how a study's arms were tuned, or []. Raises ValueError for a damaged file."""
    file = study / TUNED
    if not file.is_file():
        return []
    found: Tuned = _entry(_read(file), Tuned, "", file)
    rows = [_row(template, tried, found["chosen"].get(template)) for template, tried in found["arms"].items()]
    seeds = ", ".join(map(str, found["seeds"]))
    words = (
        f"Method {found['method']}: {found['points']} points per arm, each trained with seeds {seeds}, which the "
        f"results do not use, for {found['share']:.0%} of the planned steps, and ranked by {found['measure']}; "
        f"{number(found['hours'])} hours in total."
    )
    every = [
        [template, each["arm"], number(each["score"])] for template, tried in found["arms"].items() for each in tried
    ]
    return [
        Table("How the arms were tuned", ["arm", "chosen", "its score", "all scores", "failed"], rows, words, False),
        Table("All points of the search", ["arm", "point", "score"], every, f"Score: {found['measure']}.", False),
    ]


def _row(template: str, tried: list[Tried], chosen: str | None) -> list[str]:
    scores = [each["score"] for each in tried if each["score"] is not None]
    best = next((each["score"] for each in tried if each["arm"] == chosen), None)
    span = f"{number(min(scores))} to {number(max(scores))}" if scores else MISSING
    return [template, chosen or MISSING, number(best), span, str(len(tried) - len(scores))]


def _read(file: Path) -> dict[str, Any]:
    try:
        return signed_json.read_json(file, str(file.parent), signed=False)
    except RunError as error:
        raise ValueError(str(error)) from error


def _entry(value: Any, wanted: Any, where: str, file: Path) -> Any:
    try:
        return schema.convert(value, wanted, where)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
