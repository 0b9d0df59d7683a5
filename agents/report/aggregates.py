"""Figures of the aggregate scores: one point and one interval per arm, over seeds and environments."""

from matplotlib.figure import Figure

from ...experiments.history.collect import ComparisonData
from ...metrics import Score
from ...reports.figures.style import INK, Plot, arm_styles, new_figure, tidy
from .scores import AgentScores, interval
from .tables import bootstrap_words, human_source


def plot_plasticity(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot the plasticity score of each arm, with its bootstrap interval."""
    known = {label: arm.plasticity for label, arm in scores.arms.items() if arm.plasticity}
    if not known:
        return None
    caption = (
        f"Interquartile mean over seeds and environments; {_intervals(known)}. 0 and 1 are the worst and best of the "
        "runs shown here (5th and 95th percentile), so scores of different reports cannot be compared."
    )
    label = "plasticity score (IQM of min–max normalised final returns)"
    return Plot("plasticity_score", "Plasticity score", caption, _dots(scores, known, label, (0.0, 1.0), 2))


def plot_human(data: ComparisonData, scores: AgentScores) -> Plot | None:
    """Plot the human-normalised score of each arm, with its bootstrap interval, if there are several arms."""
    known = {label: arm.human for label, arm in scores.arms.items() if arm.human}
    if len(scores.arms) < 2 or not known or scores.human_from is None:
        return None
    games = len(scores.environments)
    one = " One game says nothing about others." if games == 1 else ""
    caption = (
        f"Interquartile mean over seeds and {games} {'game' if games == 1 else 'games'} of (return − random) / "
        f"(human − random): 0 is random play, 1 a human tester. Returns are from {human_source(scores)}; "
        f"{_intervals(known)}.{one}"
    )
    label = f"human-normalised score (IQM; {scores.human_from} returns)"
    return Plot("human_normalized", "Human-normalised score", caption, _dots(scores, known, label, (0.0, 0.0), 3))


def _dots(scores: AgentScores, known: dict[str, Score], label: str, least: tuple[float, float], digits: int) -> Figure:
    """Return a figure with one row per arm. least: the range that the axis always includes. digits: decimal places."""
    figure = new_figure(0.75 + 0.42 * len(known), width=8.0)
    axes = figure.subplots()
    tidy(axes, grid="x")
    styles = arm_styles(list(scores.arms))
    ends = [*least]
    for row, (arm, value) in enumerate(known.items()):
        color, span = styles[arm]["color"], interval(value) or (value.iqm, value.iqm)
        axes.plot(span, [row, row], color=color, linewidth=5, alpha=0.35, solid_capstyle="butt")
        axes.scatter(value.iqm, row, s=64, color=color, zorder=3, edgecolor="white")
        axes.annotate(
            f"{value.iqm:.{digits}f}".replace("-", "−"),
            (max(value.iqm, span[1]), row),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
        )
        ends += [value.iqm, *span]
    axes.set_yticks(range(len(known)), list(known), fontsize=10)
    axes.set_ylim(len(known) - 0.4, -0.6)
    low, high = min(ends), max(ends)
    margin = (high - low) or 1.0
    axes.set_xlim(low - 0.02 * margin, high + 0.09 * margin)  # space for the numbers on the right
    axes.set_xlabel(label, fontsize=9.5, color=INK)
    return figure


def _intervals(known: dict[str, Score]) -> str:
    bootstrap = bootstrap_words(list(known.values()))
    return f"bars: {bootstrap}" if bootstrap else "1 seed: no interval, so differences may be due to chance"
