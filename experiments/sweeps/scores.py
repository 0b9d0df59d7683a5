"""The scores of the points at which arms were trained in a sweep's search."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...engine.storage import signed_json
from ..comparisons import comparison as comparisons
from ..comparisons.comparison import Comparison, Point, label_of
from ..queue.jobs import Job, jobs_of
from .search import WORST, score_of_jobs
from .tuning import Tuned

FILE = "tuned.json"


@dataclass(frozen=True)
class Row:
    """The entry of a point in tuned.json: its score (None if one of its runs failed), and seconds of training."""

    score: float | None
    seconds: float


class Scores:
    """A function that returns the score of a point in a sweep's folder: the mean of `search.score` over its seeds.

    Logs are read once, and the scores are stored in STUDY/tuned.json. `unknown` is returned for a point whose runs have
    not ended: None, or a placeholder for planning.
    """

    def __init__(self, path: Path, unknown: float | None = None) -> None:
        self.path, self.unknown = path, unknown
        self._known: dict[str, dict[str, Row]] = {}  # by folder, then by the point's label
        self._plans: dict[str, Comparison | None] = {}

    def __call__(self, folder: str, point: Point, measure: str) -> float | None:
        known = self._known.setdefault(folder, self._read(folder))
        if (label := label_of(*point)) not in known:
            jobs = self._jobs(folder, point)
            if not jobs or any(job.open for job in jobs):
                return self.unknown
            score, seconds = score_of_jobs(jobs, measure)
            known[label] = Row(None if score == WORST else score, round(seconds, 1))
        value = known[label].score
        return WORST if value is None else value

    def _jobs(self, folder: str, point: Point) -> list[Job]:
        """Return the runs of a point, or [] if none has been started."""
        path = self.path / folder
        if folder not in self._plans:
            self._plans[folder] = comparisons.read_comparison(path) if (path / comparisons.FILE).exists() else None
        plan = self._plans[folder]
        return [job for job in jobs_of(path, plan) if (job.arm, job.variant) == point] if plan else []

    def _file(self, folder: str) -> Path:
        return (self.path / folder).parent / FILE

    def _read(self, folder: str) -> dict[str, Row]:
        if not (file := self._file(folder)).exists():
            return {}
        arms = signed_json.read_json(file, str(file))["arms"]
        rows = [row for own in arms.values() for row in own if row["score"] is not None]  # failed runs may be retried
        return {row["arm"]: Row(row["score"], row["seconds"]) for row in rows}

    def write(self, folder: str, tuned: Tuned) -> None:
        """Write tuned.json: the rule, the scores of all points trained so far, and the chosen points."""
        known = self._known.get(folder, {})
        arms: dict[str, list[dict[str, Any]]] = {
            arm: [{"arm": label, **vars(known[label])} for label in labels if label in known]
            for arm, labels in tuned.tried.items()
        }
        rule = tuned.rule
        signed_json.write_json(self._file(folder), {
            "method": rule.method, "points": rule.points, "seeds": rule.seeds, "share": rule.share,
            "measure": tuned.measure, "arms": arms, "chosen": tuned.chosen,
            "hours": round(sum(row["seconds"] for rows in arms.values() for row in rows) / 3600, 3),
        })  # fmt: skip
