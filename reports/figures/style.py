"""The style of all figures: one colour per arm, light grids, readable type. It uses no pyplot and no global state."""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from supple.engine.forks import FRESH, NONE
from supple.experiments.history.data import ComparisonData, RunData, Series
from supple.metrics import Array, t_interval

Curve = Callable[[RunData, float, float], Series]  # (steps, values) at low < step ≤ high
Pieces = list[tuple[dict[str, Any], list[Series]]]  # (style, (steps, values) of each seed)

# Okabe & Ito (2008): distinguishable with all common kinds of colour blindness. Yellow is pale on white and comes last.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#B5A800")
BASELINE = "#3c3c3c"
INK, FAINT, SHADE = "#222222", "#8a8a8a", "#f1f0ec"
FORK: dict[str, Any] = {"color": "#555555", "linewidth": 1.1, "linestyle": (0, (4, 3))}
MOST_SWITCHES = 60
MOST_LETTERS = 60  # of a label; a longer one would leave no room for the panel
MOST_POINTS = 200  # of a line: more would not be visible in a panel, but would cost time
MOST_BANDS = 9  # arms in a panel: with more, their intervals would cover each other
FEW_SEEDS = 4  # as many are drawn one by one; an interval of so few would hide them
WIDTH = 11.0  # inches; the page shows figures at about this width


@dataclass(frozen=True)
class Plot:
    """A figure with its file name, title and caption. If it is `folded`, the page shows it only on request."""

    name: str
    title: str
    caption: str
    figure: Figure
    folded: bool = False

    def of(self, words: str) -> "Plot":
        """Return the figure of one part of the report, such as a variant, with its words in name and title."""
        return replace(self, name=f"{self.name}_{slug(words)}", title=f"{self.title}: {words}") if words else self

    @property
    def width(self) -> int:
        """The width in pixels at which the page shows the figure."""
        return int(self.figure.get_figwidth() * 92)

    def save(self, folder: Path) -> None:
        """Write the figure as NAME.png and NAME.svg."""
        # draws once, while savefig draws twice; compresses in half the time, for 10 % more bytes
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # of letters that the font lacks; the page and tables have them
            FigureCanvasAgg(self.figure).print_png(folder / f"{self.name}.png", pil_kwargs={"compress_level": 3})
            self.figure.set_layout_engine("none")  # the layout is done
            text = io.StringIO()
            with rc_context({"svg.hashsalt": "supple"}):  # without it, the same figure would give different files
                FigureCanvasSVG(self.figure).print_svg(text, metadata={"Date": None})
        (folder / f"{self.name}.svg").write_text(text.getvalue(), encoding="utf-8", newline="\n")


def shorten(label: str, most: int = MOST_LETTERS) -> str:
    """Return the text of a label, without the middle of an overlong one."""
    half = (most - 3) // 2
    return label if len(label) <= most else f"{label[:half]} … {label[-half:]}"


def slug(text: str) -> str:
    """Return a text as a part of a file name."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def arm_styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the line style of each arm: dark grey for `none`, dashed grey for the fresh agent, then the palette.

    Lines are dashed in the second round of the palette and dotted in the third.
    """
    others = [label for label in labels if label not in (NONE, FRESH)]
    styles: dict[str, dict[str, Any]] = {
        NONE: {"color": BASELINE, "linestyle": "-"},
        FRESH: {"color": "#7a7a7a", "linestyle": "--"},
    }
    for i, label in enumerate(others):
        dashes = ("-", "--", ":")[i // len(PALETTE) % 3]
        styles[label] = {"color": PALETTE[i % len(PALETTE)], "linestyle": dashes}
    return styles


def new_figure(height: float, width: float = WIDTH) -> Figure:
    layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.05, wspace=0.02, hspace=0.02)
    return Figure(figsize=(width, height), dpi=160, layout=layout, facecolor="white")


def new_panels(
    count: int, margin: float, row: float, width: float = WIDTH, columns: int = 3, **share: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels in rows of this height, in inches, the last row of which may have fewer.

    `share` are `sharex` and `sharey` of matplotlib.
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = new_figure(margin + row * rows, width)
    grid = list(figure.subplots(rows, columns, squeeze=False, **share).ravel())
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, grid[:count]


def tidy(axes: Axes, title: str = "", grid: str = "y") -> None:
    """Apply the common style to one panel."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(labelsize=9, colors="#555555", length=3, color="#bbbbbb")
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color="#e4e4e4", linewidth=0.7)  # type: ignore[arg-type]
    if title:
        axes.set_title(shorten(title), loc="left", fontsize=10.5, fontweight="bold", color=INK)


def legend(figure: Figure, labels: Sequence[str], fork: bool = False, among: Sequence[str] = ()) -> None:
    """Draw one legend above all panels, in as few rows as possible.

    `fork` says whether the figure shows the fork; `among` are the arms that determine the colours, if there are more.
    """
    styles = arm_styles(among or labels)
    names = {FRESH: "fresh agent"}
    handles = [
        Line2D([], [], linewidth=2.2, label=shorten(names.get(label, label)), **styles[label]) for label in labels
    ]
    if fork:
        trunk = Line2D([], [], color=FAINT, linewidth=2.2, label="before the fork")
        handles = [trunk, *handles, Line2D([], [], label="fork", **FORK)]
    words = [len(str(handle.get_label())) + 7 for handle in handles]
    room = int(120 * figure.get_figwidth() / WIDTH)
    columns = len(handles) if sum(words) <= room else max(1, room // max(words))
    figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(handles) // columns))
    figure.legend(
        handles=handles, loc="outside upper left", ncols=columns, frameon=False, fontsize=10, handlelength=2.2
    )


def legend_of(figure: Figure, data: ComparisonData) -> None:
    """Draw the legend of a figure with all arms, and with the fork if there is one."""
    legend(figure, list(data.arms), bool(data.fork_step), data.labels)


def step_unit(total: int, unit: str = "environment steps") -> tuple[float, str]:
    """Return a suitable (divisor, axis label) for this many steps."""
    if total >= 2_000_000:
        return 1e6, f"{unit} (millions)"
    return (1e3, f"{unit} (thousands)") if total >= 2_000 else (1.0, unit)


def curves_by_style(data: ComparisonData, curve: Curve) -> Pieces:
    """Return (style, curve of each seed) for the trunks, which are drawn once, and for each arm from the fork on."""
    fork, styles = data.fork_step, arm_styles(data.labels)
    pieces: Pieces = []
    if fork:
        trunks = {run.seed: run for run in data.runs}
        pieces.append(({"color": FAINT, "linestyle": "-"}, [curve(run, -1, fork) for run in trunks.values()]))
    for label, runs in data.arms.items():
        pieces.append((styles[label], [curve(run, fork or -1, np.inf) for run in runs]))
    return pieces


def mean_and_interval(values: Array) -> tuple[Array, Array, Array]:
    """Return the mean, low and high end of the 95 % Student-t interval over seeds, each of shape (points,).

    `values` has shape (seeds, points), without NaN. With four seeds, the interval extends 3.2 standard errors to each
    side, with two 12.7, which hides everything else. The ends are therefore NaN with up to `FEW_SEEDS` seeds, and
    figures show the seeds themselves.
    """
    middle, ends = values.mean(axis=0), t_interval(values) if len(values) > FEW_SEEDS else None
    nothing = np.full_like(middle, np.nan)
    return middle, *(ends or (nothing, nothing))


def on_common_steps(series: Sequence[Series]) -> Series:
    """Return common steps (n,) and values (seeds, n), interpolated linearly in the range where all seeds have data."""
    series = [(steps, values) for steps, values in series if steps.size]
    if not series:
        return np.empty(0), np.empty((0, 0))
    first, last = max(s[0] for s, _ in series), min(s[-1] for s, _ in series)
    steps = np.unique(np.concatenate([s for s, _ in series]))
    steps = steps[(steps >= first) & (steps <= last)]
    return steps, np.stack([np.interp(steps, s, v) for s, v in series])


def draw_band(axes: Axes, steps: Array, values: Array, style: dict[str, Any], dots: bool = False) -> None:
    """Draw the mean of `values`, (seeds, points), with its interval or, for up to `FEW_SEEDS` seeds, thin lines.

    The seeds determine the scale of the panel, not their interval. `dots` marks the points that the line joins.
    """
    if not steps.size:
        return
    if len(steps) > MOST_POINTS:
        shown = np.linspace(0, len(steps) - 1, MOST_POINTS).astype(int)
        steps, values = steps[shown], values[:, shown]
    middle, low, high = mean_and_interval(values)
    if 1 < len(values) <= FEW_SEEDS:
        lines = [np.column_stack([steps, seed]) for seed in values]
        axes.add_collection(LineCollection(lines, colors=style["color"], linewidths=0.8, alpha=0.45))
    elif len(values) > 1:
        edge = np.concatenate([np.column_stack([steps, low]), np.column_stack([steps, high])[::-1]])
        band = PolyCollection([edge], facecolor=style["color"], alpha=0.14, linewidth=0)
        axes.add_collection(band, autolim=False)
        axes.update_datalim([(steps[0], values.min()), (steps[-1], values.max())])
    marker = "o" if dots or len(steps) == 1 else None
    axes.plot(steps, middle, linewidth=2.0, marker=marker, markersize=3.5, clip_on=not dots, **style)


def draw_panels(
    panels: Mapping[str, Pieces], label: str, row: float, divisor: float = 1.0, dots: bool = False,
    **layout: Any,
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """Return a figure with one panel of curves for each title, over steps / divisor (see `draw_band`), and its panels.

    With more than `MOST_BANDS` arms in a panel, only means are drawn. `layout` is that of `new_panels`.
    """
    figure, grid = new_panels(len(panels), 0.4, row, **layout)
    for axes in grid[-layout.get("columns", 3) if layout.get("sharex") else 0 :]:
        axes.set_xlabel(label, fontsize=9.5, color=INK)
        axes.tick_params(labelbottom=True)
    for axes, (title, pieces) in zip(grid, panels.items(), strict=True):
        tidy(axes, title)
        arms = len({(style["color"], style.get("linestyle")) for style, _ in pieces if style["color"] != FAINT})
        for style, series in pieces:
            steps, values = on_common_steps(series)
            lines = values if arms <= MOST_BANDS or not steps.size else values.mean(axis=0, keepdims=True)
            draw_band(axes, steps / divisor, lines, style, dots)
    return figure, grid


def mark_stream(axes: Axes, data: ComparisonData, divisor: float) -> None:
    """Mark the first run's task switches as thin lines, unless there are too many, and the fork as a dashed line.

    The axis has the steps of the longest run."""
    tasks = data.first.tasks
    for task in tasks[1:] if len(tasks) <= MOST_SWITCHES else ():
        axes.axvline(task.start / divisor, color="#c2c2c2", linewidth=0.9, zorder=0)
    if data.fork_step:
        axes.axvline(data.fork_step / divisor, zorder=1, **FORK)
    axes.set_xlim(0, data.total_steps / divisor)


def seeds_phrase(seeds: int, arms: int = 1) -> str:
    """Return the sentence of a caption about the uncertainty shown for this many seeds, and arms in a panel."""
    if seeds == 1:
        return "1 seed: no interval, and no evidence beyond these runs."
    if arms > MOST_BANDS:
        return f"Means over {seeds} seeds."
    if seeds <= FEW_SEEDS:
        return f"Thin lines and small dots: the {seeds} seeds; thick lines and large dots: their means."
    return f"Bands and bars: 95 % Student-t interval over {seeds} seeds, cut at the panel’s edge."


def seeds_phrase_of(data: ComparisonData) -> str:
    """Return the sentence of `seeds_phrase` for a figure with all arms in a panel."""
    return seeds_phrase(data.seeds, len(data.arms))
