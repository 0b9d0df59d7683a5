"""The page of a report: one HTML file beside its figures, without network access."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.studies.content import Content
from supple.reports.tables.cells import first_number, hover, show
from supple.reports.tables.table import contracts, event_rows

from .exports import with_file_names
from .opening import Arms, arms_of, make_opening, title_of
from .run_list import run_lines

if TYPE_CHECKING:
    from supple.reports.figures.style import Plot

MOST_EVENTS = 2_000  # on one page; the page of each run has its own events
# the parts of layout.html that a page may leave out
OPTIONAL = {
    "numbers": "scores.json", "opening": None, "facts": (), "verdict": (), "notes": (), "tables": (), "plots": (),
    "version": metadata.version("supple"),
}  # fmt: skip


def render(content: Content, plots: "Sequence[Plot]", place: Path) -> str:
    """Return the page of the report in the folder `place`. Texts are escaped, since they come from files."""
    parts, runs = list(content.parts.values()), content.runs
    datas = [part.data for part in parts]
    arms = arms_of(datas)
    resets, idle = contracts(arms)
    first, *others = content.tables
    lines = [*chain.from_iterable(part.lines for part in parts), first.words]
    resolved, events = runs[0].spec.resolved, event_rows(datas)
    title = title_of(arms, content.what)
    return template("report.html").render(
        what="report",
        title=title[0].upper() + title[1:],
        limits=limits_text(datas, arms),
        opening=make_opening(datas, content.what, content.measures, content.of_old_tasks),
        notes=content.notes,
        tables=[replace(first, words=" ".join(filter(None, lines))), *others],
        plots=plots,
        resets=resets,
        terms=list(dict.fromkeys(chain.from_iterable(resets.values()))),
        idle=[arm for arm in idle if arms[arm][0].spec.resolved.hooks],
        videos=content.videos,
        hooks={arm: ", ".join(of_arm[0].spec.resolved.hooks) for arm, of_arm in arms.items()},
        events=events[:MOST_EVENTS],
        total_events=len(events),
        runs=run_lines(place, runs) if len({run.path for run in runs}) > 1 else [],
        settings=[*((name, text) for name, text in setting_texts(resolved.data) if text), *settings_of(runs)],
        versions=setting_texts(resolved.begun),
        command="\n".join(dict.fromkeys(run.spec.command for run in runs)),
        path=content.data.path.resolve().name,
        version=runs[0].supple or OPTIONAL["version"],
    )


@cache
def template(name: str) -> Template:
    """Return one of the templates in this folder. All of them extend layout.html."""
    loader = PackageLoader(__package__, package_path="")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= OPTIONAL | {"with_file_names": with_file_names}
    encode = partial(quote, errors="surrogateescape")  # the names of folders need not be UTF-8
    environment.filters |= {"urlencode": encode, "show": show, "hover": hover, "first_number": first_number}
    return environment.get_template(name)


def limits_text(datas: Sequence[ComparisonData], arms: Arms) -> str:
    """Return one or two sentences about the limits of these runs."""
    text = "Intervals are over seeds, for this stream and these settings. They say nothing about others."
    if min(data.seeds for data in datas) == 1:
        text = "One seed per arm: there is no interval, and a difference may be due to chance."
    informed = any("@task" in arm for arm in arms)
    return f"{text} Arms with @task are told when the task changes; others are not." if informed else text


def setting_texts(values: Any) -> list[tuple[str, str]]:
    """Return settings as pairs of texts."""
    if not isinstance(values, dict):
        return []
    return [(str(name), ", ".join(map(str, v)) if isinstance(v, list) else str(v)) for name, v in values.items()]


def settings_of(runs: Sequence[RunData]) -> list[tuple[str, str]]:
    """Return the settings of these runs as pairs of texts. If runs differ in a setting, all its values are listed."""
    texts = [dict(setting_texts(run.values)) for run in runs]
    values: dict[str, dict[str, None]] = {}
    for name, text in chain.from_iterable(of_run.items() for of_run in texts):
        values.setdefault(name, {})[text] = None
    return [(name, "; ".join(of_name)) for name, of_name in values.items()]
