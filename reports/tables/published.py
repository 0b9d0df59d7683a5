"""How the arms of a sweep were tuned, for its report."""

from pathlib import Path
from typing import Any

from supple.engine.storage.signed_json import read_json

from .cells import Pair, Value, number
from .table import Table

TUNED = "tuned.json"


def tuning_tables(study: Path) -> list[Table]:
    """Return the tables of how a study's arms were tuned, or []. Raises ValueError for a damaged file."""
    file = study / TUNED
    if not file.is_file():
        return []
    record: dict[str, Any] = read_json(file, str(file))
    chosen = [_row(arm, points, record["chosen"].get(arm)) for arm, points in record["arms"].items()]
    seeds = ", ".join(map(str, record["seeds"]))
    words = (
        f"Method {record['method']}: {record['points']} points per arm, each trained with seeds {seeds}, which the "
        f"results do not use, for {record['share']:.0%} of the planned steps, and ranked by {record['measure']}; "
        f"{number(record['hours'])} hours in total."
    )
    tried = [[arm, point["arm"], point["score"]] for arm, points in record["arms"].items() for point in points]
    return [
        Table("How the arms were tuned", ["arm", "chosen", "its score", "all scores", "failed"], chosen, words, False),
        Table("All points of the search", ["arm", "point", "score"], tried, f"Score: {record['measure']}.", False),
    ]


def _row(arm: str, points: list[dict[str, Any]], chosen: str | None) -> list[Value]:
    scores = [point["score"] for point in points if point["score"] is not None]
    best = next((point["score"] for point in points if point["arm"] == chosen), None)
    span = Pair(min(scores), max(scores), (", lowest", ", highest"), "{} to {}") if scores else None
    return [arm, chosen, best, span, len(points) - len(scores)]
