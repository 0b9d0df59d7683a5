"""The report of agents: returns along the stream and by task, plasticity score and human-normalised score."""

from typing import TYPE_CHECKING

from supple.experiments.history.data import ComparisonData
from supple.reports.studies.content import Description, Report
from supple.reports.tables.differences import variants_of
from supple.reports.tables.table import join_words

from .scores import AgentScores, ArmScores, score
from .scores_json import to_json
from .tables import short_name, tables

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot

MOST_LINES = 8  # in one panel of learning curves; the bands of more would cover each other

__all__ = ["AGENTS", "AgentScores", "ArmScores", "score"]


def describe(data: ComparisonData) -> Description:
    """Return what there is to say of one run or one comparison."""
    scores = score(data)
    places, tasks = join_words(list(map(short_name, scores.environments))), len(data.first.tasks)
    what = places if tasks == 1 else f"{tasks} tasks of {places}"
    return Description(
        data,
        what,
        to_json(data, scores),
        tables(scores),
        scores.measures,
        lambda: _plots(data, scores),
        notes=scores.notes,
        old_tasks=scores.old_tasks,
    )


def _plots(data: ComparisonData, scores: AgentScores) -> "list[Plot | None]":
    """Return all figures for which there are data, in the order of the page."""
    from supple.reports.figures.diagnostics import before_and_after, metrics_over_time
    from supple.reports.figures.heat_maps import plot_old_tasks
    from supple.reports.studies.evaluation_figures import by_variant

    from .aggregates import plot_human, plot_plasticity
    from .gaps import plot_gaps
    from .returns import plot_by_task, plot_evaluation_curves, plot_learning_curves

    plots: list[Plot | None] = []
    apart = len(data.arms) > MOST_LINES and len(variants_of(data)) > 1
    for variant, part in by_variant(data).items() if apart else [("", data)]:
        drawn = plot_learning_curves(part, scores), plot_evaluation_curves(part, scores)
        plots += [plot and plot.of(variant) for plot in drawn]
    plots += map(plot_old_tasks, scores.old_tasks)
    plots += [plot_by_task(data, scores), plot_human(scores), *metrics_over_time(data), before_and_after(data)]
    return [*plots, plot_gaps(data, scores), plot_plasticity(scores)]


ACT = """from supple.agents.trained import Trained

agent = Trained("PLACE")
action = agent.predict(observation)"""
AGENTS = Report("", describe, videos="supple.agents.video:record_videos", task="reinforcement-learning", use=ACT)
