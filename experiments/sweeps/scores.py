"""The scores of the points at which arms were trained in a sweep's search."""

from pathlib import Path
from typing import Any

from supple.engine.storage import signed_json
from supple.experiments.comparisons import folder as comparisons
from supple.experiments.comparisons.grid import Point
from supple.experiments.queue.queue import Queue, QueuedRun

from .search import WORST, score_runs
from .tuning import Tuning

FILE = "tuned.json"


class PointScores:
    """A function that returns the score of a point in a sweep's folder: the mean of `search.score` over its seeds.

    Logs are read once, and the scores are stored in STUDY/tuned.json. `unknown` is returned for a point whose runs have
    not ended: None, or a placeholder for planning.
    """

    def __init__(self, path: Path, unknown: float | None = None) -> None:
        self.path, self.unknown = path, unknown
        # by folder, then by the point's label: its entry in the file. The score is None if one of its runs failed
        self._known: dict[str, dict[str, dict[str, Any]]] = {}
        self._queues: dict[str, Queue] = {}

    def __call__(self, folder: str, point: Point, measure: str) -> float | None:
        known = self._known.setdefault(folder, self._read(folder))
        if (label := point.label) not in known:
            runs = self._runs(folder, point)
            if not runs or any(run.open for run in runs):
                return self.unknown
            score, seconds = score_runs(runs, measure)
            known[label] = {"arm": label, "score": None if score == WORST else score, "seconds": round(seconds, 1)}
        value = known[label]["score"]
        return WORST if value is None else value

    def _runs(self, folder: str, point: Point) -> list[QueuedRun]:
        """Return the runs of a point, or [] if none has been started."""
        path = self.path / folder
        if folder not in self._queues:
            begun = (path / comparisons.FILE).exists()
            self._queues[folder] = comparisons.open_comparison(path).queue(path) if begun else Queue()
        return [run for run in self._queues[folder] if (run.spec.labels.arm, run.spec.labels.variant) == point]

    def _file(self, folder: str) -> Path:
        return (self.path / folder).parent / FILE

    def _read(self, folder: str) -> dict[str, dict[str, Any]]:
        if not (file := self._file(folder)).exists():
            return {}
        arms = signed_json.read_json(file, str(file))["arms"]
        rows = [row for rows in arms.values() for row in rows if row["score"] is not None]  # failed runs may be retried
        return {row["arm"]: row for row in rows}

    def write(self, folder: str, tuning: Tuning) -> None:
        """Write tuned.json: the rule, the scores of all points trained so far, and the chosen points."""
        known = self._known.get(folder, {})
        arms = {arm: [known[label] for label in labels if label in known] for arm, labels in tuning.tried.items()}
        rule = tuning.rule
        signed_json.write_json(self._file(folder), {
            "method": rule.method, "points": rule.points, "seeds": rule.seeds, "share": rule.share,
            "measure": tuning.measure, "arms": arms, "chosen": tuning.chosen,
            "hours": round(sum(row["seconds"] for rows in arms.values() for row in rows) / 3600, 3),
        })  # fmt: skip
