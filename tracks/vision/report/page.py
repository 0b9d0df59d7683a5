"""The page of a report on classifiers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.pages.opening import make_opening, range_text
from supple.reports.pages.page import facts_of_arms, limits_text, render_page, setting_texts
from supple.reports.studies.side_by_side import differing_settings
from supple.reports.tables import old_tasks
from supple.reports.tables.differences import Measure
from supple.reports.tables.table import join_words

from .tables import Results, Studies, name_benchmarks, notes_of, sentences, tables

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot


def render(studies: Studies, scores: Results, plots: "Sequence[Plot]", place: Path) -> str:
    """Return the page as text.

    Args:
        studies: The comparisons or runs, by benchmark.
        scores: Their scores, by benchmark.
        plots: The figures.
        place: The folder of the page.
    """
    several = len(studies) > 1
    first = next(iter(studies.values()))
    arms: dict[str, list[RunData]] = defaultdict(list)
    for data in studies.values():
        for label, runs in data.arms.items():
            arms[label] += runs
    together = ComparisonData(first.path, dict(arms), first.fork_step)
    network = first.first.settings.network
    title = f"Classifiers on {len(studies)} benchmarks" if several else f"Classifiers: {next(iter(studies))}, {network}"
    return render_page(
        together,
        plots,
        tables(studies, scores),
        notes_of(scores),
        title=title,
        facts=_facts(studies, together.runs),
        limits=limits_text(min(studies.values(), key=lambda data: data.seeds)),
        opening=make_opening(
            together,
            f"vision on {join_words(list(studies))}",
            _measures(scores),
            more=name_benchmarks({name: old_tasks.sentences(own.old_tasks, sure=True) for name, own in scores.items()}),
        ),
        verdict=sentences(scores),
        settings=_settings(arms),
        command="\n".join(dict.fromkeys(run.spec.command for run in together.runs)),
        place=place,
    )


def _measures(scores: Results) -> list[Measure]:
    """Return the measures of all benchmarks. If there are several, the name of a measure contains its benchmark."""
    return [
        replace(measure, name=f"{measure.name} on {name}", family=measure.name) if len(scores) > 1 else measure
        for name, of_benchmark in scores.items()
        for measure in of_benchmark.measures
    ]


def _facts(studies: Studies, runs: Sequence[RunData]) -> list[tuple[str, str]]:
    facts = [
        (range_text({run.total_steps for run in runs}), "updates per run"),
        (range_text({len(run.tasks) for run in runs}), "tasks per run"),
    ]
    labels = {label for data in studies.values() for label in data.arms}
    facts += facts_of_arms(len(labels), {len(of_arm) for data in studies.values() for of_arm in data.arms.values()})
    first = next(iter(studies.values()))
    if first.fork_step:
        facts.append((f"{first.fork_step:,}", "update of the fork: arms share all before it"))
    return facts


def _settings(arms: Mapping[str, list[RunData]]) -> list[tuple[str, str]]:
    """Return the settings of all runs, and for each arm those in which it differs."""
    entries = list(arms.values())
    runs = [run for group in entries for run in group]
    different = differing_settings([[run] for run in runs])
    shared = {"data set": runs[0].spec.resolved.data, **runs[0].values}
    pairs = [(name, value) for name, value in setting_texts(shared) if name not in different]
    for name in different:
        pairs.append((name, "; ".join(f"{label}: {_values_text(group, name)}" for label, group in arms.items())))
    return pairs


def _values_text(runs: Sequence[RunData], name: str) -> str:
    return " or ".join(sorted({str(run.values.get(name)) for run in runs}))
