"""Drawing helpers for the figures of deep linear networks: curves, colours of λ, heat maps, networks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from supple.reports.figures.style import BASELINE, INK, PALETTE, tidy
from supple.reports.tables.cells import with_minus

# Negative, zero, positive: told apart with any common colour blindness; seen on white, and below black dots.
DIVERGING = LinearSegmentedColormap.from_list("lambda", [PALETTE[0], "#58a4d6", "#8c8c8c", "#f0944a", PALETTE[1]])
HEAT = "RdBu_r"  # of signed matrices: blue below 0, white at 0, red above
SIMULATION: dict[str, Any] = {"linewidth": 2.9, "solid_capstyle": "round"}
THEORY: dict[str, Any] = {"color": "black", "linewidth": 1.2, "linestyle": (0, (1, 2.6)), "dash_capstyle": "round"}
Panel = Callable[[SubFigure, Mapping[str, Any]], None]
TIME = r"time $t/\tau$"


def lambda_colour(lam: float, most: float = 2.0) -> str:
    """Return the colour of λ: blue below 0, grey at 0, orange above. The colours are saturated at ±most."""
    return to_hex(DIVERGING(0.5 + 0.5 * float(np.clip(lam / most, -1, 1))))


def wide_lambda_colour(lam: float) -> str:
    """Return the colour of λ, saturated at ±10. The cube root makes ±2 differ from 0."""
    return lambda_colour(np.cbrt(lam / 10), 1.0)


def lambda_title(lam: float) -> str:
    return with_minus(f"λ = {lam:g}")


def shades(colour: str, count: int) -> list[str]:
    """Return tints of a colour, from the colour itself half way to white, for curves that belong together."""
    base = np.asarray(to_rgb(colour))
    return [to_hex(base + (1 - base) * mix) for mix in np.linspace(0.0, 0.55, count)]


def draw_curves(axes: Axes, x: ArrayLike, simulated: ArrayLike, theory: ArrayLike, colours: Sequence[str]) -> None:
    """Draw the simulated curves in colour, and those of the theory dotted over them.

    Args:
        x: (T,).
        simulated: (T,) or (T, curves…).
        theory: As `simulated`.
        colours: One for each curve.
    """
    lines, dots = (np.asarray(values).reshape(len(values), -1) for values in (simulated, theory))  # type: ignore[arg-type]
    for line, colour in zip(lines.T, colours, strict=True):
        axes.plot(x, line, color=colour, zorder=2, **SIMULATION)
    axes.plot(x, dots, zorder=3, **THEORY)


def draw_learning(panels: Sequence[Axes], numbers: Mapping[str, Any], simulated: Any, theory: Any, label: str) -> None:
    """Draw curves (λ, T, curves) over the `times` of a figure's numbers, in tints of the colour of λ, a panel for each.

    label: What they show."""
    for axes, lines, dots, lam in zip(panels, simulated, theory, numbers["lambdas"], strict=True):
        draw_curves(axes, numbers["times"], lines, dots, shades(lambda_colour(lam), np.shape(lines)[1]))
        axes.set_xlim(0, numbers["times"][-1])
        style_axes(axes, TIME, label if axes is panels[0] else "")


def title_lambdas(panels: Sequence[Axes], lambdas: Sequence[float]) -> None:
    """Write a letter and λ above each panel, in the colour of λ."""
    for letter, axes, lam in zip("ABC", panels, lambdas, strict=True):
        axes.set_title(rf"$\bf{{{letter}}}$   {lambda_title(lam)}", loc="left", fontsize=11, color=lambda_colour(lam))


def draw_bar(figure: Figure | SubFigure, shown: ScalarMappable, panels: Any, label: str = "", **place: Any) -> None:
    """Draw the bar of colours beside panels. place: As for `Figure.colorbar`."""
    bar = figure.colorbar(shown, ax=panels, **place)
    bar.set_label(label, fontsize=9.5)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8.5, colors="#555555", length=2)


def legend_entries(marker: bool = False) -> list[Line2D]:
    """Return the legend entries for simulation and theory. marker: the simulation is drawn as dots."""
    how: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 5} if marker else SIMULATION
    return [Line2D([], [], color=BASELINE, label="simulation", **how), Line2D([], [], label="theory", **THEORY)]


def split_figure(figure: Figure | SubFigure, rows: int, columns: int, **ratios: Any) -> list[SubFigure]:
    """Return the parts of a figure with their own letters and legends, row by row.

    ratios: `height_ratios`, `width_ratios`."""
    return list(figure.subfigures(rows, columns, False, **ratios).ravel())


def draw_panels(parts: Sequence[SubFigure], numbers: Mapping[str, Any], *panels: tuple[str, Panel]) -> None:
    """Draw a panel in each part of a figure, with its letter and title. panels: title, and what draws it."""
    for part, name, (title, draw) in zip(parts, "ABC", panels, strict=True):
        write_letter(part, name, title)
        draw(part, numbers)


def draw_legend(figure: Figure | SubFigure, handles: Sequence[Line2D]) -> None:
    """Draw a legend in one line at the upper right, level with the panel's letter."""
    figure.legend(
        handles=list(handles), loc="outside upper right", ncols=len(handles), frameon=False, fontsize=9.5,
        handlelength=1.8, columnspacing=1.4, borderaxespad=0.1,
    )  # fmt: skip


def write_letter(figure: Figure | SubFigure, name: str, title: str) -> None:
    """Write the panel's letter and title at the upper left of its part of the figure."""
    figure.suptitle(rf"$\bf{{{name}}}$   {title}", x=0.01, ha="left", fontsize=11, color=INK)


def style_axes(axes: Axes, x: str = "", y: str = "", title: str = "") -> None:
    """Apply the common style to a panel, with labels of its axes."""
    tidy(axes, title)
    axes.set_xlabel(x, fontsize=9.5, color=INK)
    axes.set_ylabel(y, fontsize=9.5, color=INK)


def draw_matrix(
    axes: Axes, matrix: ArrayLike, title: str = "", limit: float | None = None, below: str = ""
) -> AxesImage:
    """Draw a signed matrix, in which white is 0.

    Args:
        axes: Where.
        matrix: (rows, columns).
        title: Above it.
        limit: The value at which the colours end, by default the largest entry. It is then printed below.
        below: What is printed below instead.
    """
    values = np.asarray(matrix)
    end = float(np.abs(values).max()) if limit is None else limit
    image = axes.imshow(values, cmap=HEAT, vmin=-end, vmax=end, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("#bbbbbb")
    axes.set_title(title, fontsize=9.5, color=INK, pad=4)
    note = below or (f"±{float(f'{end:.2g}'):g}" if limit is None else "")
    axes.set_xlabel(note, fontsize=8, color="#777777", labelpad=2)
    return image


def draw_network(axes: Axes, sizes: Sequence[int], title: str, colour: str, widths: tuple[float, float]) -> None:
    """Draw layers of nodes from left to right, with a line from every node to every node of the next layer.

    Args:
        axes: Where.
        sizes: The number of input, hidden and output nodes.
        title: Above it.
        colour: That of the lines and the title.
        widths: The lines' widths in W₁ and W₂, in points.
    """
    columns = [0.5 * (n - 1) - np.arange(n) for n in sizes]
    for i, width in enumerate(widths):
        ends = [up.ravel() for up in np.meshgrid(columns[i], columns[i + 1])]
        axes.plot([i, i + 1], ends, color=colour, linewidth=width, alpha=0.55, zorder=1)
    for i, up in enumerate(columns):
        axes.scatter(np.full(len(up), i), up, s=95, facecolor="white", edgecolor=INK, linewidth=1.2, zorder=2)
    tall = 0.5 * (max(sizes) - 1)
    for x, name in ((0.5, "$W_1$"), (1.5, "$W_2$")):
        axes.text(x, -tall - 0.55, name, ha="center", va="top", fontsize=10, color=INK)
    axes.set_xlim(-0.3, 2.3)
    axes.set_ylim(-tall - 1.25, tall + 0.45)
    axes.set_axis_off()
    axes.set_title(title, fontsize=10, color=colour, fontweight="bold")
