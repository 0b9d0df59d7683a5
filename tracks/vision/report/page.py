"""The page of a report on classifiers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ....experiments.history.collect import ComparisonData, RunData
from ....reports.figures.style import Plot
from ....reports.pages.opening import join_words, make_opening
from ....reports.pages.page import limits_text, range_text, render_page, setting_texts
from ....reports.studies.side_by_side import differing_settings
from ....reports.tables.differences import Measure, difference_tables, verdict
from ....reports.tables.table import Table
from .scores import ClassifierScores
from .tables import grid, shock_table, summary

Studies = Mapping[str, ComparisonData]
Results = Mapping[str, ClassifierScores]


def tables(studies: Studies, scores: Results) -> list[Table]:
    """Return a table of arms × benchmarks if there are several, and the tables of each benchmark.

    These are its summary, its shocks and the differences between its arms."""
    several = len(studies) > 1
    shown = [grid(studies, scores)] if several else []
    for name, data in studies.items():
        shown.append(summary(data, scores[name], name.capitalize() if several else "Summary"))
        if shocks := shock_table(scores[name]):
            shown.append(shocks)
        apart = difference_tables(scores[name].differences)
        shown += [replace(each, title=f"{each.title}, {name}") for each in apart] if several else apart
    return shown


def sentences(scores: Results) -> list[str]:
    """Return the verdict on each benchmark."""
    several = len(scores) > 1
    return [
        f"{name}: {line}" if several else line for name, each in scores.items() for line in verdict(each.differences)
    ]


def render(studies: Studies, scores: Results, plots: Sequence[Plot], place: Path) -> str:
    """Return the page as text."""
    several = len(studies) > 1
    first = next(iter(studies.values()))
    arms: dict[str, list[RunData]] = defaultdict(list)
    for data in studies.values():
        for label, runs in data.arms.items():
            arms[label] += runs
    network = first.first.config.get("settings", {}).get("network", "")
    notes = [f"{name}: {note}" if several else note for name, each in scores.items() for note in each.notes]
    return render_page(
        ComparisonData(first.path, dict(arms), first.fork_step),
        plots,
        tables(studies, scores),
        notes,
        title=f"Classifiers on {len(studies)} benchmarks"
        if several
        else f"Classifiers: {next(iter(studies))}, {network}",
        facts=_facts(studies),
        limits=limits_text(min(studies.values(), key=lambda data: data.seeds)),
        opening=make_opening(
            ComparisonData(first.path, dict(arms), first.fork_step),
            f"vision on {join_words(list(studies))}",
            _measures(scores),
        ),
        verdict=sentences(scores),
        settings=_settings(arms),
        command="\n".join(dict.fromkeys(run.command for runs in arms.values() for run in runs)),
        place=place,
    )


def _measures(scores: Results) -> list[Measure]:
    """Return the measures of all benchmarks. If there are several, the name of a measure contains its benchmark."""
    if len(scores) == 1:
        return [measure for each in scores.values() for measure in each.measures]
    return [
        replace(measure, name=f"{measure.name} on {name}", family=measure.name)
        for name, each in scores.items()
        for measure in each.measures
    ]


def _facts(studies: Studies) -> list[tuple[str, str]]:
    counts = {
        "updates a run": {run.total_steps for data in studies.values() for runs in data.arms.values() for run in runs},
        "tasks a run": {len(run.tasks) for data in studies.values() for runs in data.arms.values() for run in runs},
    }
    facts = [(range_text(numbers), what) for what, numbers in counts.items()]
    labels = dict.fromkeys(label for data in studies.values() for label in data.arms)
    facts.append((str(len(labels)), "arm" if len(labels) == 1 else "arms"))
    seeds = {len(runs) for data in studies.values() for runs in data.arms.values()}
    facts.append((range_text(seeds), "seed" if seeds == {1} else "seeds an arm"))
    first = next(iter(studies.values()))
    if first.fork_step:
        facts.append((f"{first.fork_step:,}", "update of the fork: arms share all before it"))
    return facts


def _settings(arms: Mapping[str, list[RunData]]) -> list[tuple[str, str]]:
    """Return the settings of all runs, and for each arm those in which it differs."""
    entries = list(arms.values())
    runs = [run for group in entries for run in group]
    different = differing_settings([[run] for run in runs])
    shared = {"data set": runs[0].config.get("data"), **runs[0].config.get("settings", {})}
    pairs = [(name, value) for name, value in setting_texts(shared) if name not in different]
    for name in different:
        values = {label: {str(run.config["settings"].get(name)) for run in group} for label, group in arms.items()}
        pairs.append((name, "; ".join(f"{label}: {' or '.join(sorted(each))}" for label, each in values.items())))
    return pairs
