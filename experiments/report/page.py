"""The report's page: one HTML file beside its figures, without scripts or anything from the network."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from ..fork import FRESH
from .collect import ComparisonData, RunData
from .exports import named
from .side_by_side import differing
from .style import Plot
from .tables import Table, contracts, event_rows

MOST_EVENTS = 2_000  # on one page; the pages of the runs have those of each


def page(
    data: ComparisonData,
    plots: Sequence[Plot],
    tables: Sequence[Table],
    notes: Sequence[str],
    *,
    title: str,
    facts: Sequence[tuple[str, str]],
    limits: str,
    verdict: Sequence[str] = (),
    settings: Sequence[tuple[str, str]],
    command: str,
) -> str:
    """Return a page as text. Names and settings are escaped: they come from files.

    facts: the headline's few numbers, (value, what it is). limits: what these runs cannot show, in one sentence.
    verdict: what they do show, by `differences.verdict`.
    """
    resets, idle = contracts(data)
    config = data.first.config
    return template("template.html").render(
        what="report",
        numbers="scores.json",
        title=title,
        facts=facts,
        limits=limits,
        verdict=verdict,
        notes=notes,
        tables=tables,
        plots=plots,
        resets=resets,
        terms=list(dict.fromkeys(name for contract in resets for name in contract.terms)),
        idle=idle,
        hooks={label: ", ".join(runs[0].config.get("hooks", [])) for label, runs in data.arms.items()},
        events=(events := event_rows(data))[:MOST_EVENTS],
        every_event=len(events),
        settings=settings,
        versions=flat(config.get("versions", {})),
        command=command,
        path=data.path.resolve().name,
        version=data.first.supple or "",
    )


@cache
def template(name: str) -> Template:
    """Return one of the templates beside this file; all share layout.html."""
    loader = PackageLoader(__package__, package_path="")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["named"] = named
    return environment.get_template(name)


def limits(data: ComparisonData) -> str:
    """Return what these runs cannot show, in a sentence or two."""
    return " ".join(filter(None, (_of_seeds(data), _of_what_is_told(data))))


def _of_what_is_told(data: ComparisonData) -> str:
    told = [arm for arm in data.arms if "@task" in arm]
    others = [arm for arm in data.arms if arm not in (*told, FRESH)]
    if not told or not others:
        return ""
    verb = "is" if len(others) == 1 else "are"
    return f"Arms with @task are told when the world changes; {', '.join(others)} {verb} not."


def _of_seeds(data: ComparisonData) -> str:
    if len(data.arms) == 1 and data.seeds == 1:
        return "One run: it shows what happened, not what usually happens, and compares with nothing."
    if data.seeds == 1:
        return "One seed an arm: there is no interval, and a difference between arms may be chance."
    if data.seeds < 5:
        return f"{data.seeds} seeds an arm: intervals are wide, and only large differences can be told from chance."
    return "Intervals are over seeds of this stream and these settings; they say nothing of others."


def range_text(numbers: set[int]) -> str:
    """Return `1,000`, or `1,000 to 2,000` where they differ."""
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def flat(values: Any) -> list[tuple[str, str]]:
    """Return settings as pairs of words."""
    if not isinstance(values, dict):
        return []
    return [(str(name), ", ".join(map(str, v)) if isinstance(v, list) else str(v)) for name, v in values.items()]


def settings_of(runs: Sequence[RunData]) -> list[tuple[str, str]]:
    """Return the settings of these runs as pairs of words; where they differ, all that there are."""
    different, every = differing([[run] for run in runs]), [dict(flat(run.config.get("settings", {}))) for run in runs]
    return [
        (name, "; ".join(dict.fromkeys(each.get(name, "") for each in every)) if name in different else text)
        for name, text in every[0].items()
    ]


def command_text(command: Any) -> str:
    """Return a command line, however an old run wrote it."""
    return " ".join(map(str, command)) if isinstance(command, list) else str(command or "")
