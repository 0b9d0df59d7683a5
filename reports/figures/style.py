"""The style of all figures: one colour per arm, light grids, readable type. It uses no pyplot and no global state."""

import io
import re
import warnings
from collections.abc import Callable, Sequence
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
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FuncFormatter
from numpy.typing import NDArray

from supple.engine.forks import FRESH, NONE
from supple.experiments.history.data import ComparisonData, RunData
from supple.metrics import t_interval

Array = NDArray[np.float64]
Curve = Callable[[RunData, float, float], tuple[Array, Array]]  # (steps, values) at low < step ≤ high
Pieces = list[tuple[dict[str, Any], list[tuple[Array, Array]]]]  # (style, (steps, values) of each seed)

# Okabe & Ito (2008): distinguishable with all common kinds of colour blindness. Yellow is pale on white and comes last.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#B5A800")
BASELINE = "#3c3c3c"
INK, FAINT, SHADE = "#222222", "#8a8a8a", "#f1f0ec"
FORK: dict[str, Any] = {"color": "#555555", "linewidth": 1.1, "linestyle": (0, (4, 3))}
MOST_SWITCHES = 60
MOST_LETTERS, MOST_AT_TICKS = 80, 60  # of a label; at a tick, a longer one would leave no room for the panel
NOTHING = "\u200c"  # a character without a width
MOST_POINTS = 200  # of a line: more would not be visible in a panel, but would cost time
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
        show_texts_literally(self.figure)
        # draws once, while savefig draws twice; compresses in half the time, for 10 % more bytes
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # of letters that the font lacks; the page and tables have them
            FigureCanvasAgg(self.figure).print_png(folder / f"{self.name}.png", pil_kwargs={"compress_level": 3})
            self.figure.set_layout_engine("none")  # the layout is done
            text = io.StringIO()
            with rc_context({"svg.hashsalt": "supple"}):  # without it, the same figure would give different files
                FigureCanvasSVG(self.figure).print_svg(text, metadata={"Date": None})
        (folder / f"{self.name}.svg").write_text(_shortened(text.getvalue()), encoding="utf-8", newline="\n")


def show_texts_literally(figure: Figure) -> None:
    """Draw the texts of a figure as they are: no formulas, nothing that cannot be seen, and nothing overlong.

    Names of arms, tasks and layers may hold `$` and anything else. Numbers at the axes keep their powers of ten.
    """
    all_axis = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    for axis in all_axis:
        formatter = axis.get_major_formatter()
        if isinstance(formatter, (FixedFormatter, FuncFormatter)):
            labels = formatter.format_ticks(list(axis.get_majorticklocs()))
            axis.set_major_formatter(FixedFormatter([_no_formula(shorten(label, MOST_AT_TICKS)) for label in labels]))
    at_ticks = {id(text) for axis in all_axis for text in axis.get_ticklabels()}
    for text in figure.findobj(Text):
        if isinstance(text, Text) and id(text) not in at_ticks and text.get_text():
            text.set_text(_no_formula("\n".join(map(shorten, text.get_text().split("\n")))))


def _no_formula(text: str) -> str:
    return re.sub(r"(?<!\\)\$", r"\\$", text)  # panels that share an axis come here twice


def shorten(label: str, most: int = MOST_LETTERS) -> str:
    """Return the text of a label, without the middle of an overlong one."""
    text = label
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def slug(text: str) -> str:
    """Return a text as a part of a file name."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def legend_text(label: str) -> str:
    """Return the text of a label in a legend, from which matplotlib leaves out those that begin with `_`."""
    return f"{NOTHING}{shorten(label)}" if label.startswith("_") else shorten(label)


def _shortened(svg: str) -> str:
    """Return an SVG without comments, and with coordinates of paths truncated to a hundredth of a point."""
    bare = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    return re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), bare)


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
    count: int,
    margin: float,
    row: float,
    width: float = WIDTH,
    columns: int = 3,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels, the last row of which may have fewer.

    Args:
        count: Number of panels.
        margin: Height of the figure without its panels, in inches.
        row: Height of a row of panels, in inches.
        width: Width of the figure, in inches.
        columns: The most panels in a row.
        sharex, sharey: Whether all panels have the same horizontal or vertical axis.
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = new_figure(margin + row * rows, width)
    grid = list(figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey).ravel())
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

    Args:
        figure: The figure.
        labels: The arms in it.
        fork: Whether it shows the fork, and the trunks before it.
        among: The arms that determine the colours, if there are more than `labels`.
    """
    styles = arm_styles(among or labels)
    names = {FRESH: "fresh agent"}
    handles = [
        Line2D([], [], linewidth=2.2, label=legend_text(names.get(label, label)), **styles[label]) for label in labels
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


def step_unit(total: int, unit: str = "environment steps") -> tuple[float, str, str]:
    """Return a suitable (divisor, axis label, suffix) for this many steps."""
    if total >= 2_000_000:
        return 1e6, f"{unit} (millions)", "M"
    if total >= 2_000:
        return 1e3, f"{unit} (thousands)", "k"
    return 1.0, unit, ""


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


def on_common_steps(series: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return common steps (n,) and values (seeds, n), interpolated linearly in the range where all seeds have data."""
    series = [(steps, values) for steps, values in series if steps.size]
    if not series:
        return np.empty(0), np.empty((0, 0))
    first, last = max(s[0] for s, _ in series), min(s[-1] for s, _ in series)
    steps = np.unique(np.concatenate([s for s, _ in series]))
    steps = steps[(steps >= first) & (steps <= last)]
    return steps, np.stack([np.interp(steps, s, v) for s, v in series])


def draw_band(
    axes: Axes, steps: Array, values: Array, style: dict[str, Any], dots: bool = False, most: float = np.inf
) -> None:
    """Draw the mean over seeds, with its interval or, for up to `FEW_SEEDS` seeds, with the seeds as thin lines.

    The seeds determine the scale of the panel, not their interval, which is cut where values cannot be: below 0 if no
    seed is below it, and above `most`.

    Args:
        axes: The panel.
        steps: The steps, of shape (points,).
        values: The values, of shape (seeds, points), without NaN.
        style: The style of the line, from `arm_styles`.
        dots: Whether to mark the points that the line joins.
        most: The largest possible value.
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
        low = np.maximum(low, 0.0) if values.min() >= 0 else low
        high = np.minimum(high, most)
        edge = np.concatenate([np.column_stack([steps, low]), np.column_stack([steps, high])[::-1]])
        band = PolyCollection([edge], facecolor=style["color"], alpha=0.14, linewidth=0)
        axes.add_collection(band, autolim=False)
        axes.update_datalim([(steps[0], values.min()), (steps[-1], values.max())])
    marker = "o" if dots or len(steps) == 1 else None
    axes.plot(steps, middle, linewidth=2.0, marker=marker, markersize=3.5, clip_on=not dots, **style)


def draw_curves(
    axes: Axes, data: ComparisonData, curve: Curve, divisor: float = 1.0, dots: bool = False, most: float = np.inf
) -> None:
    """Draw the curve of the trunks, and of each arm from the fork on, over its steps / divisor (see `draw_band`)."""
    for style, series in curves_by_style(data, curve):
        steps, values = on_common_steps(series)
        draw_band(axes, steps / divisor, values, style, dots, most)


def mark_stream(axes: Axes, run: RunData, divisor: float, fork: int | None) -> None:
    """Mark task switches as thin lines, unless there are too many, and the fork as a dashed line.

    Args:
        axes: The panel.
        run: The run whose tasks to mark.
        divisor: Steps per unit of the horizontal axis.
        fork: The step of the fork, or None.
    """
    for task in run.tasks[1:] if len(run.tasks) <= MOST_SWITCHES else ():
        axes.axvline(task.start / divisor, color="#c2c2c2", linewidth=0.9, zorder=0)
    if fork:
        axes.axvline(fork / divisor, zorder=1, **FORK)
    axes.set_xlim(0, run.total_steps / divisor)


def seeds_phrase(seeds: int) -> str:
    """Return the sentence of a caption about the uncertainty shown."""
    if seeds == 1:
        return "1 seed: no interval, and no evidence beyond these runs."
    if seeds <= FEW_SEEDS:
        return f"Thin lines and small dots: the {seeds} seeds; thick lines: their means."
    return f"Bands and bars: 95 % Student-t interval over {seeds} seeds, cut at the panel’s edge and where no value is."
