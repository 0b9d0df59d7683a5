"""Figures of the metrics of networks: over time, and before and after interventions."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter

import numpy as np
from matplotlib.lines import Line2D

from supple.experiments.history.data import ComparisonData, Row, RunData, any_logged
from supple.reports.tables.differences import group_by
from supple.reports.tables.metrics import IN_FIGURE, TITLES, means_at_events

from .style import (
    INK,
    Pieces,
    Plot,
    arm_styles,
    curves_by_style,
    draw_panels,
    legend_of,
    mark_stream,
    new_figure,
    seeds_phrase_of,
    shorten,
    step_unit,
    tidy,
)

STOOD_FOR = ("dfi_per_dim", "dfi")  # by dfi_unscaled, which tables have
MOST_ROWS = 24  # of the before/after figure; with more, they are averaged per arm


def metrics_over_time(data: ComparisonData) -> list[Plot]:
    """Plot small multiples of every learner's metrics in a fixed order.

    Metrics that never change, and those that another one stands for, are a second, folded figure.
    """
    series = {name: curves_by_style(data, partial(_curve, name)) for name in _metric_names(data.runs)}
    folded = [name for name in series if _metric(name) in STOOD_FOR or _never_changes(series[name])]
    shown = {name: pieces for name, pieces in series.items() if name not in folded} or series
    more = {name: series[name] for name in folded if name not in shown}
    plots = [_plot_metrics(data, "metrics", "Inside the network", shown)] if shown else []
    return plots + ([_plot_metrics(data, "more_metrics", "More metrics of the network", more, True)] if more else [])


def _plot_metrics(
    data: ComparisonData, name: str, title: str, series: Mapping[str, Pieces], folded: bool = False
) -> Plot:
    divisor, steps_label = step_unit(data.total_steps, data.unit)
    panels = {_panel_title(metric, series): pieces for metric, pieces in series.items()}
    columns = 2 if len(series) == 4 else 3
    figure, grid = draw_panels(panels, steps_label, 2.05, divisor, columns=columns, sharex=True)
    for axes in grid:
        mark_stream(axes, data, divisor)
        axes.locator_params(nbins=5)  # the panels are small, and every tick takes time to draw
        low, high = axes.dataLim.intervaly
        if 0 < low < high / 200 < np.inf:
            axes.set_yscale("log")
    legend_of(figure, data)
    caption = (
        "Metrics measured on recent data during training; thin vertical lines are task switches, where the data change "
        "too. They describe the network, not its performance: "
        f"none of them alone proves a loss of plasticity. {seeds_phrase_of(data)}"
    )
    return Plot(name, title, caption, figure, folded)


def _curve(name: str, run: RunData, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    return run.series(name, low=low, high=high)


def _never_changes(pieces: Pieces) -> bool:
    values = np.concatenate([values for _, series in pieces for _, values in series])
    return values.size > 1 and np.ptp(values) == 0


def _metric(name: str) -> str:
    return name.split("/", 1)[1]


def _panel_title(name: str, among: Iterable[str]) -> str:
    """Return the title of the panel of `learner/metric`. It has the learner if several have the metric."""
    learner, metric = name.split("/", 1)
    title = TITLES.get(metric, metric.replace("_", " "))
    return title if [*map(_metric, among)].count(metric) == 1 else f"{learner}: {title}"


def _metric_names(runs: Sequence[RunData]) -> list[str]:
    """Return the logged names `learner/metric`, those with a title first, without metrics of single layers."""
    logged = {name for run in runs for name in run.logged if name.count("/") == 1}
    learners = sorted({name.split("/")[0] for name in logged if _metric(name) in TITLES})
    names = []
    for learner in learners:
        metrics = {_metric(name) for name in logged if name.startswith(f"{learner}/")}
        untitled = metrics - TITLES.keys() if "weight_norm" in metrics else set()  # losses and policies need a title
        titled = [metric for metric in TITLES if metric in metrics]
        names += [f"{learner}/{metric}" for metric in (*titled, *sorted(untitled))]
    return [name for name in names if any_logged(runs, name)]


def before_and_after(data: ComparisonData) -> Plot | None:
    """Plot dumbbells: each metric right before (hollow) and right after (filled) each intervention."""
    rows = _event_rows(data)
    sides = {}
    for metric in IN_FIGURE:
        sides[metric] = [(means[f"{metric}_before"], means[f"{metric}_after"]) for *_, means in rows]
    metrics = [metric for metric, pairs in sides.items() if len(set(filter(np.isfinite, np.ravel(pairs)))) > 1]
    if not metrics:
        return None
    styles = arm_styles(data.labels)
    figure = new_figure(1.1 + 0.3 * len(rows))
    grid = figure.subplots(1, len(metrics), squeeze=False, sharey=True)[0]
    for axes, metric in zip(grid, metrics, strict=True):
        tidy(axes, TITLES[metric].split(" of ")[0].replace("units (share)", "units"), grid="both")
        for row, ((label, *_), (before, after)) in enumerate(zip(rows, sides[metric], strict=True)):
            color = styles[label]["color"]
            axes.plot([before, after], [row, row], color=color, linewidth=1.6, alpha=0.6)
            axes.scatter(before, row, s=34, facecolor="white", edgecolor=color, linewidth=1.5, zorder=3)
            axes.scatter(after, row, s=34, color=color, zorder=3)
        axes.margins(x=0.12)
        axes.locator_params(axis="x", nbins=4)
    grid[0].set_yticks(range(len(rows)), [shorten(text) for _, text, _ in rows], fontsize=8.5)
    grid[0].set_ylim(len(rows) - 0.4, -0.6)
    handles = [
        Line2D([], [], marker="o", color=INK, markerfacecolor=face, linestyle="", label=side)
        for side, face in (("before", "white"), ("after", INK))
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False, fontsize=10)
    caption = (
        "Metrics of the same probe batch right before and right after each intervention, mean over seeds. They show "
        "the immediate effect on the network, not whether it then learned better."
    )
    return Plot("before_and_after", "Before and after each intervention", caption, figure)


def _event_rows(data: ComparisonData) -> list[tuple[str, str, dict[str, float]]]:
    """Return (arm, row label, `means_at_events`): one row per step, or one per arm if there are too many."""
    events = [
        (label, event) for label, runs in data.arms.items() for run in runs for event in run.of_kind("intervention")
    ]
    several = len({event.get("learner") for _, event in events}) > 1

    def row_of(each: tuple[str, Row]) -> tuple[str, str]:
        label, event = each
        who = f"{label} {event.get('learner')}" if several else label
        return label, f"{who}, {event['step']:,}"

    groups = group_by(events, row_of)
    if len(groups) > MOST_ROWS:
        groups = group_by(events, lambda each: (each[0], f"{row_of(each)[1].rpartition(', ')[0]} (mean)"))
    return [
        (label, text, means_at_events(list(map(itemgetter(1), of_row)), IN_FIGURE))
        for (label, text), of_row in groups.items()
    ]
