"""The HTML page of a report on agents."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from supple.experiments.history.data import ComparisonData
from supple.reports.figures.video import Video
from supple.reports.pages.opening import arms_of, in_words, make_opening, range_text
from supple.reports.pages.page import facts_of_arms, limits_text, render_page, settings_of
from supple.reports.tables.old_tasks import sentences
from supple.reports.tables.table import join_words

from .scores import AgentScores
from .tables import short_name, tables

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot


def render(
    data: ComparisonData, scores: AgentScores, videos: Sequence[Video], plots: "Sequence[Plot]", place: Path
) -> str:
    """Return the page as HTML.

    Args:
        data: The runs of all arms.
        scores: Their scores.
        videos: Videos of the arms, or none.
        plots: The figures, in the order of the page.
        place: The folder that contains the report.
    """
    what = _what(data, scores)
    return render_page(
        data,
        plots,
        tables(scores),
        scores.notes,
        title=arms_of(data, what),
        facts=_facts(data),
        limits=limits_text(data),
        opening=make_opening(
            data, what, scores.measures, scores.define(scores.names[0]), sentences(scores.old_tasks, sure=True)
        ),
        verdict=scores.verdict,
        settings=settings_of(data.runs),
        command=data.first.spec.command,
        place=place,
        videos=videos,
    )


def _what(data: ComparisonData, scores: AgentScores) -> str:
    """Return what was trained on what: `PPO on four tasks of CartPole-v1`."""
    algorithm = data.first.spec.kind.upper()
    places = join_words(list(map(short_name, scores.environments)))
    tasks = len(data.first.tasks)
    return f"{algorithm} on {places}" if tasks == 1 else f"{algorithm} on {in_words(tasks)} tasks of {places}"


def _facts(data: ComparisonData) -> list[tuple[str, str]]:
    first = data.first
    lengths = {task.end - task.start for task in first.tasks}
    facts = [(f"{first.total_steps:,}", "environment steps per run")]
    if len(first.tasks) > 1:
        facts.append((range_text(lengths), f"steps per task, {len(first.tasks)} tasks"))
    if shift := first.settings.shift:
        facts.append((shift, "shift between tasks"))
    facts += facts_of_arms(len(data.methods), {data.seeds})
    if data.fork_step:
        whose = "arms with the same settings" if first.spec.labels.variant else "arms"
        facts.append((f"{data.fork_step:,}", f"fork point: {whose} share all steps before it"))
    return facts
