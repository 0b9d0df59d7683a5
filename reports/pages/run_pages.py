"""A page for each run of a report: curves, events, settings, and commands to resume or repeat the run."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from supple.engine.forks import NONE
from supple.engine.user_code import plugins
from supple.experiments.comparisons.grid import variant_text
from supple.experiments.history.data import Row, RunData, Series
from supple.metrics.arrays import Array
from supple.reports.figures.sketch import draw_curves, draw_marks
from supple.reports.tables.cells import number

from . import exports
from .page import setting_texts, template
from .run_list import command_alone, page_names

FOLDER = "runs"
PLACE = {"step", "time", "task", "cycle", "seed"}
EVALUATIONS = {"evaluation", "random"}  # events: returns on each task, of the agent or of random actions
MOST_CURVES, MOST_EVENTS = 36, 2_000
LIMITS = "One run: it shows what happened once, not what usually happens, and is not compared with anything."


def write(folder: Path, runs: Sequence[RunData]) -> None:
    """Write FOLDER/runs/NAME.html for each run. Seeds that were trained as a stack share a page."""
    (folder / FOLDER).mkdir()
    for path, name in page_names(runs).items():
        text = render_run(name, [run for run in runs if run.path == path])
        exports.put(folder / FOLDER / f"{name}.html", text)


def render_run(name: str, runs: Sequence[RunData]) -> str:
    """Return the page of one run as text. `runs` has one entry per seed of the run."""
    run, spec = runs[0], runs[0].spec
    variant = variant_text(spec.labels.variant)
    arm = spec.labels.arm or ", ".join(spec.resolved.hooks) or NONE
    facts = [
        (f"{max(each.last_step for each in runs):,}", f"of {run.total_steps:,} {run.spec.kind_row.unit}"),
        (str(sum(len(each.of_kind("intervention")) for each in runs)), "interventions"),
        (", ".join(str(each.seed) for each in runs), "seed"),
    ]
    events = _events_of(runs)
    events_title = "Events" if len(events) <= MOST_EVENTS else f"The first of {len(events):,} events"
    return template("run.html").render(
        what="run", numbers="../scores.json", title=", ".join(filter(None, [arm, variant])), path=name,
        facts=facts, limits=LIMITS, version=run.supple or "",
        curves=list(_draw_logs(runs).items()), unit=run.spec.kind_row.unit, commands=_commands(run),
        lists=[
            (events_title, ("step", "event", "details"), list(map(_event_row, events[:MOST_EVENTS]))),
            ("Settings", ("setting", "value"), setting_texts(run.values)),
            ("Versions", ("package", "version"), setting_texts(spec.resolved.begun)),
        ],
    )  # fmt: skip


def _draw_logs(runs: Sequence[RunData]) -> dict[str, Markup]:
    """Return drawings by title: returns of episodes, logged numbers without their parts, and results of tasks."""
    end = max(run.total_steps for run in runs)
    fired = sorted({event["step"] for run in runs for event in run.of_kind("intervention")})
    marks = draw_marks(fired[:MOST_EVENTS], end)
    series = {}
    if any(run.episodes.steps.size for run in runs):
        series["episode return"] = [_sort_by_step(run.episodes.steps, run.episodes.returns) for run in runs]
    logged = dict.fromkeys(name for run in runs for row in run.metrics[:1] + run.metrics[-20:] for name in row)
    for name in (name for name in logged if name not in PLACE and name.count("/") < 2):
        series[name] = [run.series(name) for run in runs]
    results = dict.fromkeys(name for run in runs for row in run.outcomes[:1] for name in row)
    for name in (name for name in results if name not in PLACE):
        series[f"{name}, by task"] = [_by_task(run.outcomes, name) for run in runs]
    shown = {name: curves for name, curves in series.items() if any(map(np.size, curves))}
    return {
        name.replace("_", " "): draw_curves(name, curves, end, marks)
        for name, curves in list(shown.items())[:MOST_CURVES]
    }


def _sort_by_step(steps: Array, values: Array) -> Series:
    order = np.argsort(steps, kind="stable")
    return steps[order], values[order]


def _by_task(rows: Sequence[Row], name: str) -> Series:
    points = [(row["step"], row[name]) for row in rows if type(row.get(name)) in (int, float)]
    steps, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return _sort_by_step(steps, values)


def _events_of(runs: Sequence[RunData]) -> list[Row]:
    """Return what happened to any seed of a run, by step, and what happened to all once.

    Evaluations are left out: they are in the curves, and would hide interventions and task switches."""
    unique = {id(event): event for run in runs for event in run.events if event.get("event") not in EVALUATIONS}
    return sorted(unique.values(), key=itemgetter("step"))


def _event_row(event: Row) -> tuple[str, str, str]:
    details = {name: value for name, value in event.items() if name not in ("event", "step", "contract")}
    text = "; ".join(f"{name}: {_value_text(value)}" for name, value in details.items())
    return f"{event['step']:,}", str(event["event"]), text


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(map(_value_text, value))
    return number(value) if isinstance(value, float) else str(value)


def _commands(run: RunData) -> list[tuple[str, str]]:
    """Return (description, command) to resume this run, to repeat it alone, and the command that started it."""
    commands = {
        "Resume this run, if it is unfinished": plugins.command("resume", run.path),
        "Repeat this run alone": command_alone(run),
        "Command that started it": run.spec.command,
    }
    return [(description, command) for description, command in commands.items() if command]
