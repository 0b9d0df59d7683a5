"""The page of a report: one HTML file beside its figures, without network access."""

from collections.abc import Collection, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from supple.engine.forks import FRESH
from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.figures.video import Video
from supple.reports.studies.side_by_side import differing_settings
from supple.reports.tables.cells import first_number, hover, show
from supple.reports.tables.table import Table, contracts, event_rows

from .exports import with_file_names
from .opening import Opening, range_text
from .run_list import run_lines

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot

MOST_EVENTS = 2_000  # on one page; the page of each run has its own events
# the parts of layout.html that a page may leave out
OPTIONAL = {
    "numbers": "scores.json", "opening": None, "verdict": (), "notes": (), "tables": (), "plots": (),
    "version": metadata.version("supple"),
}  # fmt: skip


def render_page(
    data: ComparisonData,
    plots: "Sequence[Plot]",
    tables: Sequence[Table],
    notes: Sequence[str],
    *,
    title: str,
    facts: Sequence[tuple[str, str]],
    limits: str,
    opening: Opening,
    verdict: Sequence[str] = (),
    settings: Sequence[tuple[str, str]],
    command: str,
    place: Path,
    videos: Sequence[Video] = (),
) -> str:
    """Return a page as text. Names and settings are escaped, since they come from files.

    Args:
        data: The runs, by arm.
        plots: The figures.
        tables: The tables.
        notes: Sentences about missing, failed and unfinished runs.
        title: The title.
        facts: Numbers below the title, as (value, description).
        limits: What these runs cannot show.
        opening: The sentences at the top.
        verdict: The sentences of `differences.verdict`.
        settings: Settings of the runs, as (name, value).
        command: The command that started the runs.
        place: The folder that contains the report.
        videos: Videos of trained agents.
    """
    resets, idle = contracts(data)
    resolved, events = data.first.spec.resolved, event_rows(data)
    return template("report.html").render(
        what="report",
        title=title,
        facts=facts,
        limits=limits,
        opening=opening,
        verdict=verdict,
        notes=notes,
        tables=tables,
        plots=plots,
        resets=resets,
        terms=list(dict.fromkeys(name for contract in resets for name in contract.terms)),
        idle=idle,
        videos=videos,
        hooks={label: ", ".join(runs[0].spec.resolved.hooks) for label, runs in data.arms.items()},
        events=events[:MOST_EVENTS],
        total_events=len(events),
        runs=run_lines(place, data.runs) if len({run.path for run in data.runs}) > 1 else [],
        settings=settings,
        versions=setting_texts(resolved.begun),
        command=command,
        path=data.path.resolve().name,
        version=data.first.supple or "",
    )


def url_of(path: object) -> str:
    """Return a relative path as the address in a link. The names of folders need not be UTF-8."""
    return quote(str(path), errors="surrogateescape")


@cache
def template(name: str) -> Template:
    """Return one of the templates in this folder. All of them extend layout.html."""
    loader = PackageLoader(__package__, package_path="")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= OPTIONAL | {"with_file_names": with_file_names}
    environment.filters |= {"urlencode": url_of, "show": show, "hover": hover, "first_number": first_number}
    return environment.get_template(name)


def limits_text(data: ComparisonData) -> str:
    """Return one or two sentences about the limits of these runs."""
    return " ".join(filter(None, (_limits_of_seeds(data), _limits_of_knowledge(data))))


def _limits_of_knowledge(data: ComparisonData) -> str:
    """Return a sentence if only some arms know when the task changes, or ""."""
    informed = [arm for arm in data.arms if "@task" in arm]
    others = [arm for arm in data.arms if arm not in (*informed, FRESH)]
    if not informed or not others:
        return ""
    verb = "is" if len(others) == 1 else "are"
    return f"Arms with @task are told when the task changes; {', '.join(others)} {verb} not."


def _limits_of_seeds(data: ComparisonData) -> str:
    if len(data.arms) == 1 and data.seeds == 1:
        return "One run: it shows what happened once, not what usually happens, and is not compared with anything."
    if data.seeds == 1:
        return "One seed per arm: there is no interval, and a difference between arms may be due to chance."
    if data.seeds < 5:
        return f"{data.seeds} seeds per arm: intervals are wide, and only large differences are significant."
    return "Intervals are over seeds, for this stream and these settings. They say nothing about others."


def facts_of_arms(arms: int, seeds: Collection[int]) -> list[tuple[str, str]]:
    """Return the facts on how many arms there are, and how many seeds each has, as (number, what it counts)."""
    words = "arm" if arms == 1 else "arms", "seed" if set(seeds) == {1} else "seeds per arm"
    return [(str(arms), words[0]), (range_text(seeds), words[1])]


def setting_texts(values: Any) -> list[tuple[str, str]]:
    """Return settings as pairs of texts."""
    if not isinstance(values, dict):
        return []
    return [(str(name), ", ".join(map(str, v)) if isinstance(v, list) else str(v)) for name, v in values.items()]


def settings_of(runs: Sequence[RunData]) -> list[tuple[str, str]]:
    """Return the settings of these runs as pairs of texts. If runs differ in a setting, all its values are listed."""
    different = differing_settings([[run] for run in runs])
    texts = [dict(setting_texts(run.values)) for run in runs]
    pairs = []
    for name, text in texts[0].items():
        values = dict.fromkeys(of_run.get(name, "") for of_run in texts)
        pairs.append((name, "; ".join(values) if name in different else text))
    return pairs
