"""How the figures look: one colour per arm everywhere, light grids, readable type. No pyplot, no global state."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
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
from numpy.typing import NDArray

from ...metrics import t_interval
from ..fork import FRESH, NONE
from .collect import RunData

Array = NDArray[np.float64]

# Okabe & Ito (2008), told apart with any common colour blindness; yellow, too pale on white, comes last.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#B5A800")
BASELINE = "#3c3c3c"
INK, FAINT, SHADE = "#222222", "#8a8a8a", "#f1f0ec"
FORK: dict[str, Any] = {"color": "#555555", "linewidth": 1.1, "linestyle": (0, (4, 3))}
MOST_SWITCHES = 60
MOST_POINTS = 200  # of a line: more cannot be told apart in a panel, and cost time
WIDTH = 11.0  # inches; the page shows figures at about this width


@dataclass(frozen=True)
class Plot:
    """A figure with its file name and the sentence that says what it shows and what it does not."""

    name: str
    title: str
    caption: str
    figure: Figure

    @property
    def width(self) -> int:
        """Pixels of the page that it is shown at."""
        return int(self.figure.get_figwidth() * 92)

    def save(self, folder: Path) -> None:
        """Write the figure as NAME.png and NAME.svg."""
        # draws once, where savefig draws twice, and packs half as long for a tenth more bytes
        FigureCanvasAgg(self.figure).print_png(folder / f"{self.name}.png", pil_kwargs={"compress_level": 3})
        self.figure.set_layout_engine("none")  # it has been laid out
        text = io.StringIO()
        with rc_context({"svg.hashsalt": "supple"}):  # or the same figure would be another file each time
            FigureCanvasSVG(self.figure).print_svg(text, metadata={"Date": None})
        (folder / f"{self.name}.svg").write_text(_shortened(text.getvalue()), encoding="utf-8")


def _shortened(svg: str) -> str:
    """Return a figure without comments, and its paths to a hundredth of a point."""
    bare = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    return re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), bare)


def arm_styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the line style of each arm: dark grey for `none`, dashed grey for the fresh agent, then the palette;
    dashed from its second round on."""
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


def tidy(axes: Axes, title: str = "", grid: str = "y") -> None:
    """Give one panel the look of all."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(labelsize=9, colors="#555555", length=3, color="#bbbbbb")
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color="#e4e4e4", linewidth=0.7)  # type: ignore[arg-type]
    if title:
        axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=INK)


def legend(figure: Figure, labels: Sequence[str], fork: bool = False, among: Sequence[str] = ()) -> None:
    """Draw one legend above all panels, in as few rows as its words allow. among: the arms that colours are dealt out
    to, if they are more."""
    styles = arm_styles(among or labels)
    names = {FRESH: "fresh agent"}
    handles = [Line2D([], [], linewidth=2.2, label=names.get(label, label), **styles[label]) for label in labels]
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
    """Return (divisor, axis label, suffix) in which this many steps read best."""
    if total >= 2_000_000:
        return 1e6, f"{unit} (millions)", "M"
    if total >= 2_000:
        return 1e3, f"{unit} (thousands)", "k"
    return 1.0, unit, ""


def mean_and_interval(values: Array) -> tuple[Array, Array, Array]:
    """Return mean and 95 % Student-t interval over seeds; values: (seeds, points) without NaN.

    With three seeds it is 4.3 standard errors wide on each side. With two it would be 13, which hides everything else:
    then, and with one, it is NaN, and figures show the seeds themselves.
    """
    middle, ends = values.mean(axis=0), t_interval(values) if len(values) > 2 else None
    nothing = np.full_like(middle, np.nan)
    return middle, *(ends or (nothing, nothing))


def on_common_steps(series: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return (steps, (seeds, steps) values): each seed read, by linear interpolation, where all of them have data."""
    series = [(steps, values) for steps, values in series if steps.size]
    if not series:
        return np.empty(0), np.empty((0, 0))
    first, last = max(s[0] for s, _ in series), min(s[-1] for s, _ in series)
    steps = np.unique(np.concatenate([s for s, _ in series]))
    steps = steps[(steps >= first) & (steps <= last)]
    return steps, np.stack([np.interp(steps, s, v) for s, v in series])


def draw_band(axes: Axes, steps: Array, values: Array, style: dict[str, Any], dots: bool = False) -> None:
    """Draw the mean over seeds with its interval, or, of two, the seeds as thin lines. dots: mark the points that the
    line joins."""
    if not steps.size:
        return
    if len(steps) > MOST_POINTS:
        shown = np.linspace(0, len(steps) - 1, MOST_POINTS).astype(int)
        steps, values = steps[shown], values[:, shown]
    middle, low, high = mean_and_interval(values)
    if len(values) == 2:
        lines = [np.column_stack([steps, seed]) for seed in values]
        axes.add_collection(LineCollection(lines, colors=style["color"], linewidths=0.8, alpha=0.45))
    if len(values) > 2:
        # The seeds set the scale of the panel, not their interval, which is wide where there are few.
        edge = np.concatenate([np.column_stack([steps, low]), np.column_stack([steps, high])[::-1]])
        band = PolyCollection([edge], facecolor=style["color"], alpha=0.14, linewidth=0)
        axes.add_collection(band, autolim=False)
        axes.update_datalim([(steps[0], values.min()), (steps[-1], values.max())])
    marker = "o" if dots or len(steps) == 1 else None
    axes.plot(steps, middle, linewidth=1.8, marker=marker, markersize=3.5, clip_on=not dots, **style)


def mark_stream(axes: Axes, run: RunData, divisor: float, fork: int | None) -> None:
    """Mark task switches as thin lines, unless they are too many, and the fork as a dashed line."""
    for task in run.tasks[1:] if len(run.tasks) <= MOST_SWITCHES else ():
        axes.axvline(task.start / divisor, color="#c2c2c2", linewidth=0.9, zorder=0)
    if fork:
        axes.axvline(fork / divisor, zorder=1, **FORK)
    axes.set_xlim(0, run.total_steps / divisor)


def seeds_phrase(seeds: int) -> str:
    """Return what a caption says about the uncertainty shown."""
    if seeds == 1:
        return "1 seed: no interval, and no evidence beyond these very runs."
    if seeds == 2:
        return "2 seeds, thin lines or small dots: an interval for their mean would be 13 standard errors to each side."
    return f"Bands and bars: 95 % Student-t interval over {seeds} seeds, cut where it leaves the panel."
