"""The page of a study's report."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from supple.experiments.history.data import ComparisonData
from supple.reports.studies.study import ReportedStudy
from supple.reports.tables.differences import Measure
from supple.reports.tables.table import Table

from .opening import make_opening, range_text
from .page import facts_of_arms, limits_text, render_page, setting_texts, settings_of

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot

FEW = 4  # task names that fit into a title


def render_study(
    study: ReportedStudy,
    title: str,
    tables: Sequence[Table],
    lines: Sequence[str],
    measures: Sequence[Measure],
    verdict: Sequence[str],
    plots: "Sequence[Plot]",
    place: Path,
    more: Sequence[str] = (),
) -> str:
    """Return the page as text.

    Args:
        study: The study.
        title: The beginning of the title, before the tasks.
        tables: The tables.
        lines: Sentences that summarise them.
        measures: The numbers by which arms are compared.
        verdict: Sentences about the differences in these.
        plots: The figures.
        place: The folder that contains the report.
        more: Further sentences on what can be concluded.
    """
    by_cell = {f"{group.words} {arm}": runs for group, arm, runs in study.cells}
    runs = study.runs
    first, *others = tables
    data = [(name, text) for name, text in setting_texts(runs[0].spec.resolved.data) if text]
    names = [re.sub(r"\S*/", "", task.name) for task in study.first.tasks]  # file names without their folders
    stream = " → ".join(names) if len(names) <= FEW else f"{len(names)} tasks"
    return render_page(
        ComparisonData(study.path, study.arms),
        plots,
        [replace(first, words=" ".join([*lines, first.words])), *others],
        study.notes,
        title=f"{title}: {stream}",
        facts=_facts(study),
        limits=limits_text(ComparisonData(study.path, by_cell)),
        opening=make_opening(ComparisonData(study.path, study.arms), f"{study.kind} on {stream}", measures, more=more),
        verdict=verdict,
        settings=[*data, *settings_of(runs)],
        command="\n".join(dict.fromkeys(run.spec.command for run in runs)),
        place=place,
    )


def _facts(study: ReportedStudy) -> list[tuple[str, str]]:
    runs = [run for _, _, runs in study.cells for run in runs]
    facts = [(range_text({run.total_steps for run in runs}), "updates per run")]
    if (tasks := {len(run.tasks) for run in runs}) != {1}:
        facts.append((range_text(tasks), "tasks per run"))
    if len(study.groups) > 1:
        facts.append((str(len(study.groups)), f"variants of {', '.join(study.varied).replace('_', ' ')}"))
    return [*facts, *facts_of_arms(len(study.arms), {len(runs) for _, _, runs in study.cells})]
