"""Figures of the metrics of networks: over time, and before and after interventions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from supple.experiments.history.data import ComparisonData, Row, RunData, any_logged
from supple.reports.tables.cells import number
from supple.reports.tables.metrics import IN_FIGURE, TITLES, means_at_events

from .style import (
    INK,
    MOST_SWITCHES,
    Pieces,
    Plot,
    arm_styles,
    curves_by_style,
    draw_band,
    legend,
    mark_stream,
    new_figure,
    new_panels,
    on_common_steps,
    seeds_phrase,
    step_unit,
    tidy,
)

Array = NDArray[np.float64]

STOOD_FOR = ("dfi_per_dim", "dfi")  # by dfi_unscaled, which tables have
INJECTED = (
    "After plasticity injection, layers and units are measured in the new head, but the weight norm includes the "
    "frozen heads, so values before and after cannot be compared. "
)
MOST_BANDS = 8  # with more arms, intervals would cover each other
MOST_ROWS = 24  # of the before/after figure; with more, they are averaged per arm


def metrics_over_time(data: ComparisonData) -> list[Plot]:
    """Plot small multiples of every learner's metrics in a fixed order.

    Metrics that never change, and those that another one stands for, are a second, folded figure.
    """
    series = {name: _series_by_style(data, name) for name in _metric_names(data.runs)}
    flat = [name for name, pieces in series.items() if _is_flat(pieces)]
    folded = {name: series[name] for name in series if name in flat or _metric(name) in STOOD_FOR}
    shown = {name: pieces for name, pieces in series.items() if name not in folded}
    if not shown:
        shown, folded = folded, {}
    words = [f"{_panel_title(name, series)} is {number(_constant(series[name]))} throughout" for name in flat]
    main = _plot_metrics(data, shown, f"{'; '.join(words).capitalize()}. " if words else "")
    more = _plot_metrics(data, folded)
    figures = [Plot("metrics", "Inside the network", *main)] if main else []
    return [*figures, *([Plot("more_metrics", "More metrics of the network", *more, folded=True)] if more else [])]


def _plot_metrics(data: ComparisonData, series: Mapping[str, Pieces], constant: str = "") -> tuple[str, Figure] | None:
    """Return the caption and the figure of these metrics, or None without any."""
    if not series:
        return None
    divisor, steps_label, _ = step_unit(data.total_steps, data.unit)
    columns = 2 if len(series) == 4 else 3
    figure, grid = new_panels(len(series), 0.45, 2.05, columns=columns, sharex=True)
    banded = len(data.arms) <= MOST_BANDS
    for (name, pieces), axes in zip(series.items(), grid, strict=True):
        tidy(axes, _panel_title(name, series))
        mark_stream(axes, data.first, divisor, data.fork_step)
        axes.set_xlim(0, data.total_steps / divisor)
        axes.locator_params(nbins=5)  # the panels are small, and every tick takes time to draw
        drawn = []
        for style, of_seeds in pieces:
            steps, values = on_common_steps(of_seeds)
            lines = values if banded or not steps.size else values.mean(axis=0, keepdims=True)
            draw_band(axes, steps / divisor, lines, style)
            drawn.append(values.ravel())
        shown = np.concatenate(drawn)
        if shown.size and shown.min() > 0 and shown.max() > 200 * shown.min():
            axes.set_yscale("log")
    for axes in grid[-columns:]:
        axes.set_xlabel(steps_label, fontsize=9)
        axes.tick_params(labelbottom=True)
    legend(figure, list(data.arms), bool(data.fork_step), data.labels)
    hairlines = 1 < len(data.first.tasks) <= MOST_SWITCHES
    switches = "; thin vertical lines are task switches, where the data change too" if hairlines else ""
    caption = (
        f"Metrics measured on recent data during training{switches}. They describe the network, not its performance: "
        f"none of them alone proves a loss of plasticity. {constant}{_injection_sentence(data)}"
        f"{seeds_phrase(data.seeds) if banded or data.seeds == 1 else f'Means over {data.seeds} seeds.'}"
    )
    return caption, figure


def _metric(name: str) -> str:
    return name.split("/", 1)[1]


def _panel_title(name: str, among: Iterable[str]) -> str:
    """Return the title of the panel of `learner/metric`. It has the learner if several have the metric."""
    learner, metric = name.split("/", 1)
    title = TITLES.get(metric, metric.replace("_", " "))
    return title if [*map(_metric, among)].count(metric) == 1 else f"{learner}: {title}"


def _constant(pieces: Pieces) -> float:
    return float(next(values[0] for _, series in pieces for _, values in series if values.size))


def _is_flat(pieces: Pieces) -> bool:
    """Return whether a metric has one value, in all runs and at all steps."""
    values = np.concatenate([values for _, series in pieces for _, values in series])
    return values.size > 1 and float(np.ptp(values)) == 0


def _series_by_style(data: ComparisonData, name: str) -> Pieces:
    """Return (style, series per seed) of a metric for the trunks, and for each arm from the fork on."""
    return curves_by_style(data, lambda run, low, high: run.series(name, low=low, high=high))


def _metric_names(runs: Sequence[RunData]) -> list[str]:
    """Return the logged names `learner/metric`, those with a title first, without metrics of single layers."""
    logged = {name for run in runs for name in run.logged if name.count("/") == 1}
    learners = sorted({name.split("/")[0] for name in logged if name.split("/")[1] in TITLES})
    names = []
    for learner in learners:
        metrics = {name.split("/")[1] for name in logged if name.startswith(f"{learner}/")}
        untitled = metrics - TITLES.keys() if "weight_norm" in metrics else set()  # losses and policies need a title
        titled = [metric for metric in TITLES if metric in metrics]
        names += [f"{learner}/{metric}" for metric in (*titled, *sorted(untitled))]
    return [name for name in names if any_logged(runs, name)]


def before_and_after(data: ComparisonData) -> Plot | None:
    """Plot dumbbells: each metric right before (hollow) and right after (filled) each intervention."""
    rows = _event_rows(data)
    sides = [sides for *_, sides in rows]
    metrics = [metric for metric in IN_FIGURE if _changes(metric, sides)]
    if not metrics:
        return None
    styles = arm_styles(data.labels)
    figure = new_figure(1.1 + 0.3 * len(rows))
    grid = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for axes, metric in zip(grid, metrics, strict=True):
        tidy(axes, TITLES[metric].split(" of ")[0].replace("units (share)", "units"), grid="both")
        for row, (label, _, (before, after)) in enumerate(rows):
            if metric in before and metric in after:
                color = styles[label]["color"]
                axes.plot([before[metric], after[metric]], [row, row], color=color, linewidth=1.6, alpha=0.6)
                axes.scatter(before[metric], row, s=34, facecolor="white", edgecolor=color, linewidth=1.5, zorder=3)
                axes.scatter(after[metric], row, s=34, color=color, zorder=3)
        axes.margins(x=0.12)
        axes.locator_params(axis="x", nbins=4)
    grid[0].set_yticks(range(len(rows)), [text for _, text, _ in rows], fontsize=8.5)
    grid[0].set_ylim(len(rows) - 0.4, -0.6)
    handles = [
        Line2D([], [], marker="o", color=INK, markerfacecolor="white", linestyle="", label="before"),
        Line2D([], [], marker="o", color=INK, linestyle="", label="after"),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False, fontsize=10)
    several = "mean over seeds" if data.seeds > 1 else "1 seed"
    caption = (
        f"Metrics of the same probe batch right before and right after each intervention ({several}). They show the "
        "immediate effect on the network, not whether it then learned better. " + _injection_sentence(data)
    ).strip()
    return Plot("before_and_after", "Before and after each intervention", caption, figure)


def _changes(metric: str, events: Sequence[tuple[Row, Row]]) -> bool:
    """Return whether a metric was measured, and has not one and the same value before and after all events."""
    return len({side[metric] for event in events for side in event if metric in side}) > 1


def _injection_sentence(data: ComparisonData) -> str:
    """Return a sentence for captions if the architecture of a run changed, or ""."""
    events = (event for run in data.runs for event in run.of_kind("intervention"))
    return INJECTED if any(str(event.get("intervention")).startswith("injection") for event in events) else ""


def _event_rows(data: ComparisonData) -> list[tuple[str, str, tuple[Row, Row]]]:
    """Return (arm, row label, (before, after)): one row per step, or one per arm if there are too many."""
    divisor, _, suffix = step_unit(data.total_steps)
    of_arms = [(label, run) for label, runs in data.arms.items() for run in runs]
    events = [(label, event) for label, run in of_arms for event in run.of_kind("intervention")]
    learners = {event.get("learner") for _, event in events}
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for label, event in events:
        who = f" {event.get('learner')}" if len(learners) > 1 else ""
        groups[label, f"{label}{who}, {event['step'] / divisor:.4g}{suffix}"].append(event)
    if len(groups) > MOST_ROWS:
        groups = defaultdict(list)
        for label, event in events:
            groups[label, f"{label}, {event.get('learner')}" if len(learners) > 1 else label].append(event)
        groups = {(label, f"{text} (mean of {len(g)})"): g for (label, text), g in groups.items()}
    return [(label, text, _mean_metrics(group)) for (label, text), group in groups.items()]


def _mean_metrics(events: Sequence[Row]) -> tuple[Row, Row]:
    """Return the means over events of the metrics before and after, by name, as in tables and scores.json."""
    means = means_at_events(events, IN_FIGURE)
    known = {name: value for name, value in means.items() if np.isfinite(value)}
    before = {metric: known[f"{metric}_before"] for metric in IN_FIGURE if f"{metric}_before" in known}
    return before, {metric: known[f"{metric}_after"] for metric in IN_FIGURE if f"{metric}_after" in known}
