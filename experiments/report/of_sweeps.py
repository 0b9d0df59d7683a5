"""The report over a sweep: what became of its runs, and every study's summary, on one page with links to theirs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from ..jobs import FAILED, FINISHED, OUTCOME
from .collect import read_object
from .kind import Content
from .page import template
from .style import Plot
from .tables import Table

LIMITS = "Each study says what its own runs cannot show; scores of different studies do not compare with each other."


def overview(path: Path, studies: Mapping[str, Content], planned: Mapping[str, int]) -> Content:
    """Return the page over a sweep.

    studies: what each study's own report says, by its folder in the sweep, of those that have begun. planned: how many
    runs there are in all, by the same names.
    """
    ended = {name: Counter(_outcomes(path / name)) for name in planned}
    counts = Table(
        "Runs",
        ["study", "runs", "finished", "failed", "left"],
        [
            [
                name,
                f"{runs:,}",
                *(f"{ended[name][word]:,}" for word in (FINISHED, FAILED)),
                f"{_left(runs, ended[name]):,}",
            ]
            for name, runs in planned.items()
        ],
        turns=False,
    )
    tables = [counts, *(replace(content.tables[0], title=name) for name, content in studies.items())]
    lines = [f"{name}: {line}" for name, content in studies.items() for line in content.lines]
    scores = {"studies": {name: content.scores for name, content in studies.items()}}

    def page(plots: list[Plot]) -> str:
        return template("sweep.html").render(
            what="sweep", numbers="scores.json", title=", ".join(planned), path=path.resolve().name,
            facts=[
                (f"{len(planned):,}", "studies"),
                (f"{sum(planned.values()):,}", "runs"),
                (f"{sum(count[FAILED] for count in ended.values()):,}", "failed"),
            ],
            limits=LIMITS, verdict=lines, notes=[], tables=tables, plots=plots, studies=list(studies),
            version=metadata.version("supple"),
        )  # fmt: skip

    return Content([counts], scores, list, page)


def _outcomes(folder: Path) -> list[str]:
    return [str(read_object(file).get("outcome")) for file in folder.glob(f"seed*/**/{OUTCOME}")]


def _left(runs: int, ended: Counter[str]) -> int:
    return runs - ended[FINISHED] - ended[FAILED]
