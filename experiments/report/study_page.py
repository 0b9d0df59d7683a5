"""The page of a report on language models and on linear networks, and the tables that it shares with the terminal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .classifier_page import range_text
from .collect import ComparisonData, RunData
from .fronts import fronts_table, trade_off
from .language import Study
from .language_continual import Learned, order_line, summary, tasks_table
from .language_scores import Cell, gaps
from .language_tables import gap_line, plain, pretraining, tuning
from .linear_tables import linear
from .page import command_text, flat, limits, page
from .side_by_side import differing
from .style import Plot
from .tables import Table

TITLES = {
    "pretrain": "Pretraining",
    "sft": "Supervised fine-tuning",
    "clip": "Image–text pretraining",
    "continual": "Continual learning",
    "linear": "Deep linear networks",
}
FEW = 4  # task names that a title has room for


@dataclass(frozen=True, eq=False)
class Words:
    """A report's tables, and the lines that sum them up."""

    tables: list[Table]
    lines: list[str]


def words(study: Study, cells: Sequence[Cell], found: Sequence[Learned]) -> Words:
    """found: the scores of tasks, of a continual run; empty otherwise."""
    if study.kind == "continual":
        lines = [order_line(study, found)]
        tables = [summary(study, found), tasks_table(study, found)]
    elif study.kind == "pretrain":
        lines, tables = [gap_line(gaps(study, cells))], pretraining(study, cells)
    elif study.kind == "sft":
        found_fronts = trade_off(cells)
        lines, tables = [], [*tuning(study, cells), *([fronts_table(found_fronts)] if found_fronts else [])]
    elif study.kind == "linear":
        lines, tables = [], linear(study, cells)
    else:
        lines, tables = [], plain(study, cells)
    return Words(tables, [line for line in lines if line])


def render(study: Study, said: Words, plots: Sequence[Plot]) -> str:
    """The page as text."""
    by_cell = {f"{group.words} {arm}": runs for group, arm, runs in study.cells}
    runs = [run for each in study.arms.values() for run in each]
    first, *others = said.tables
    tables = [Table(first.title, first.header, first.rows, " ".join([*said.lines, first.words])), *others]
    names = [re.sub(r"\S*/", "", task.env) for task in study.first.tasks]  # of files without their folders
    return page(
        ComparisonData(study.path, study.arms),
        plots,
        tables,
        study.notes,
        title=f"{TITLES[study.kind]}: {' → '.join(names) if len(names) <= FEW else f'{len(names)} tasks'}",
        facts=_facts(study),
        limits=limits(ComparisonData(study.path, by_cell)),
        settings=_settings(runs),
        command="\n".join(dict.fromkeys(command_text(run.config.get("command")) for run in runs)),
    )


def _facts(study: Study) -> list[tuple[str, str]]:
    runs = [run for _, _, runs in study.cells for run in runs]
    facts = [(range_text({run.total_steps for run in runs}), "updates a run")]
    if (tasks := {len(run.tasks) for run in runs}) != {1}:
        facts.append((range_text(tasks), "tasks a run"))
    if len(study.groups) > 1:
        facts.append((str(len(study.groups)), f"variants of {', '.join(study.varied).replace('_', ' ')}"))
    facts.append((str(len(study.arms)), "arm" if len(study.arms) == 1 else "arms"))
    seeds = {len(runs) for _, _, runs in study.cells}
    facts.append((range_text(seeds), "seed" if seeds == {1} else "seeds an arm"))
    return facts


def _settings(runs: Sequence[RunData]) -> list[tuple[str, str]]:
    """The data and the settings of all runs; where these differ, all that there are."""
    different = differing([[run] for run in runs])
    config = runs[0].config
    pairs = [(name, text) for name, text in flat(config.get("data")) if text]
    for name, text in flat(config.get("settings", {})):
        texts = [dict(flat(run.config.get("settings", {}))).get(name, "") for run in runs]
        pairs.append((name, "; ".join(dict.fromkeys(texts)) if name in different else text))
    return pairs
