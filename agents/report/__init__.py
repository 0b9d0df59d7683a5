"""The report of agents: returns along the stream and by task, plasticity score and human-normalised score."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from supple.experiments.history.collect import load
from supple.experiments.history.data import ComparisonData
from supple.reports.studies.content import Content, Report
from supple.reports.studies.side_by_side import only_path
from supple.reports.tables.differences import variants_of

from .scores import AgentScores, ArmScores, overall_shares, score
from .scores_json import to_json
from .tables import tables

if TYPE_CHECKING:
    from supple.engine.loop import Warn
    from supple.reports.figures.style import Plot
    from supple.reports.figures.video import Video

MOST_LINES = 8  # in one panel of learning curves; the bands of more would cover each other

__all__ = ["AGENTS", "AgentScores", "ArmScores", "score"]


def compose(paths: Sequence[Path]) -> Content:
    """Return the report of one run or one comparison."""
    data = load(only_path(paths))
    scores = score(data)

    def add_videos(warn: "Warn") -> Content:
        from supple.agents.video import record_videos  # PyTorch takes a moment

        return _content(data, scores, record_videos(data, warn))

    return replace(_content(data, scores), with_videos=add_videos)


def _content(data: ComparisonData, scores: AgentScores, videos: "Sequence[Video]" = ()) -> Content:
    def page(plots: "Sequence[Plot]", place: Path) -> str:
        from .page import render  # templates take a moment

        return render(data, scores, videos, plots, place)

    return Content(
        tables(scores),
        to_json(data, scores),
        lambda: _plots(data, scores),
        page,
        [*scores.verdict, *scores.notes],
        scores.measures,
        overall_shares(data, scores),
        data.runs,
    )


def _plots(data: ComparisonData, scores: AgentScores) -> list["Plot"]:
    """Return all figures for which there are data, in the order of the page."""
    from supple.reports.figures.diagnostics import before_and_after, metrics_over_time
    from supple.reports.figures.old_tasks import plot_old_tasks

    from .aggregates import plot_human, plot_plasticity
    from .gaps import plot_gaps
    from .returns import plot_by_task, plot_evaluation_curves, plot_learning_curves

    plots: list[Plot | None] = []
    for variant, part in _parts(data):
        drawn = plot_learning_curves(part, scores), plot_evaluation_curves(part, scores)
        plots += [plot.of(variant) for plot in drawn if plot is not None]
    plots += map(plot_old_tasks, scores.old_tasks)
    plots += [plot_by_task(data, scores), plot_human(data, scores), *metrics_over_time(data), before_and_after(data)]
    plots += [plot_gaps(data, scores), plot_plasticity(data, scores)]
    return [plot for plot in plots if plot is not None]


def _parts(data: ComparisonData) -> list[tuple[str, ComparisonData]]:
    """Return (description of a variant, its data) for each panel of curves: a single panel if there are few arms."""
    variants = variants_of(data)
    if len(data.arms) <= MOST_LINES or len(variants) == 1:
        return [("", data)]
    parts = []
    for variant, labels in variants.items():
        parts.append((variant, replace(data, arms={arm: data.arms[label] for arm, label in labels.items()})))
    return parts


AGENTS = Report(compose)
