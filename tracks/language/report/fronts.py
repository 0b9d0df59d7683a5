"""Learning against retention: every variant of an arm as a point, and its Pareto front (SIB, Figures 4 and 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.lines import Line2D

from supple.metrics import hypervolume, pareto_front
from supple.reports.figures.style import INK, Plot, arm_styles, new_figure, shorten, tidy
from supple.reports.studies.evaluations import Cell
from supple.reports.tables.cells import Form, Heading, Label, Number, percent
from supple.reports.tables.statistics import Spread
from supple.reports.tables.table import Table, TableRows, over_seeds

LEARN, RETAIN = "learn_", "retain_"


@dataclass(frozen=True, eq=False)
class FrontPoint:
    """The final results of an arm in one variant, one per seed. Both numbers are to be large.

    words: the variant, such as `learning rate 1e-05, epochs 3`."""

    words: str
    learned: Spread
    retained: Spread

    @property
    def mean(self) -> tuple[float, float]:
        return self.learned.mean, self.retained.mean


@dataclass(frozen=True, eq=False)
class TradeOff:
    """The points of each arm, the model before fine-tuning, and the labels of the axes.

    shares: both numbers are shares, so that the area above 0 has a meaning. They are shown in %."""

    points: dict[str, list[FrontPoint]]
    base: tuple[float, float] | None
    learned: Heading
    retained: Heading
    shares: bool

    @property
    def form(self) -> Form:
        """The form in which the numbers are shown."""
        return Form(scale=100.0 if self.shares else 1.0)

    @property
    def seeds(self) -> int:
        """The largest number of seeds of a point."""
        return max(len(point.learned.seeds) for points in self.points.values() for point in points)


def find_trade_off(cells: Sequence[Cell]) -> TradeOff | None:
    """Return the final scores of fine-tuning runs, or their negative losses if scores are missing.

    Return None if no run is finished, or nothing was to be retained."""
    names = dict.fromkeys(name for cell in cells for name in cell.numbers)
    learned, retained = (_find_measure(names, prefix) for prefix in (LEARN, RETAIN))
    if not learned or not retained:
        return None
    shares = not any(name.endswith("loss") for name in (learned, retained))
    if not shares:
        learned, retained = f"{LEARN}loss", f"{RETAIN}loss"
    sign = 1.0 if shares else -1.0
    points: dict[str, list[FrontPoint]] = {}
    bases = []
    for cell in cells:
        if learned not in cell.numbers or retained not in cell.numbers:
            continue
        both = [cell.numbers[name] for name in (learned, retained)]
        final = sign * np.stack([number_of["final"].values for number_of in both])
        known = np.isfinite(final).all(axis=0)
        if known.any():
            seeds = np.array(both[0]["final"].seeds)[known].tolist()
            point = FrontPoint(cell.words, *(Spread(row[known], seeds) for row in final))
            points.setdefault(cell.point.arm, []).append(point)
            bases.append(sign * np.stack([number_of["base"].values for number_of in both]))
    if not points:
        return None
    base = np.concatenate(bases, axis=1)
    base = base[:, np.isfinite(base).all(0)]
    words = [name.replace("_", " ") for name in (learned, retained)]
    labels: list[Heading] = [percent(text) if shares else Label(f"negative {text}", f"−{text}") for text in words]
    middle = (float(base[0].mean()), float(base[1].mean())) if base.size else None
    return TradeOff(points, middle, labels[0], labels[1], shares)


def draw_fronts(trade_off: TradeOff) -> Plot:
    """Plot points, fronts as stairs, and the model before fine-tuning."""
    figure = new_figure(4.6, width=7.4)
    axes = figure.subplots()
    tidy(axes, grid="both")
    styles, scale = arm_styles(list(trade_off.points)), trade_off.form.scale
    for arm, points in trade_off.points.items():
        color = styles[arm]["color"]
        means = scale * np.array([point.mean for point in points])
        best = pareto_front(means)
        front = means[best][np.argsort(means[best][:, 0])]
        axes.plot(*front.T, drawstyle="steps-pre", linewidth=1.6, **styles[arm])
        for point, (x, y), on in zip(points, means, best, strict=True):
            axes.scatter(x, y, s=34, zorder=3, color=color if on else "white", edgecolor=color, linewidth=1.2)
            if len(point.learned.seeds) > 2:
                half = [scale * np.diff(each.interval or (0, 0)) / 2 for each in (point.retained, point.learned)]
                axes.errorbar(x, y, half[0], half[1], fmt="none", color=color, linewidth=0.8, alpha=0.6)
    handles = [Line2D([], [], linewidth=2.2, label=shorten(arm), **styles[arm]) for arm in trade_off.points]
    if trade_off.base:
        x, y = trade_off.base
        axes.scatter(scale * x, scale * y, marker="*", s=150, color=INK, zorder=4)
        handles.append(Line2D([], [], marker="*", markersize=11, color=INK, linestyle="none", label="base model"))
    axes.set_xlabel(str(trade_off.learned), fontsize=9.5, color=INK)
    axes.set_ylabel(str(trade_off.retained), fontsize=9.5, color=INK)
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False, fontsize=10)
    caption = (
        "One point a variant of the settings, at the end of training; filled and joined: no other variant of the arm "
        f"is better in one and as good in the other. Means over {trade_off.seeds} seeds, bars of more than two: 95 % "
        "Student-t intervals. "
        "More variants make a front look better by chance alone."
    )
    return Plot("fronts", "Learning and retention", caption, figure)


def fronts_table(trade_off: TradeOff) -> Table:
    """Return a table of all points, whether each is on its arm's front, and the area under that front."""
    rows: TableRows = []
    for arm, points in trade_off.points.items():
        means = [point.mean for point in points]
        area = hypervolume(means) if trade_off.shares else None
        for point, on in zip(points, pareto_front(means), strict=True):
            numbers = [Number.of(spread, trade_off.form) for spread in (point.learned, point.retained)]
            rows.append([arm, point.words, *numbers, "yes" if on else "", area])
    if trade_off.base:
        rows.append(["base model", "", *(Number(value, form=trade_off.form) for value in trade_off.base), "", ""])
    front = "On the front: no other variant of the arm is better in one and as good in the other."
    note = f"{front} {over_seeds(trade_off.seeds)}"
    header: list[Heading] = ["arm", "variant", trade_off.learned, trade_off.retained, "on the front", "area"]
    if not trade_off.shares:
        return Table("Fronts", header[:-1], [row[:-1] for row in rows], note)
    note += " Area: of the square from 0 to 100 % in both, the share that is below the arm's front."
    return Table("Fronts", header, rows, note)


def _find_measure(names: Sequence[str] | dict[str, None], prefix: str) -> str | None:
    """Return the result of a test by its prefix: a score, or else the loss."""
    candidates = [name for name in names if name.startswith(prefix)]
    return next((name for name in candidates if not name.endswith("loss")), candidates[0] if candidates else None)
