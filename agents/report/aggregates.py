"""Figures of the aggregate scores: one point and one interval per arm, over seeds and environments."""

from matplotlib.figure import Figure

from supple.experiments.history.data import ComparisonData
from supple.metrics import Score
from supple.reports.figures.measures import draw_rows
from supple.reports.figures.style import INK, Plot, arm_styles, new_figure

from .scores import AgentScores
from .tables import bootstrap_words, human_source, score_cell


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
    return Plot("plasticity_score", "Plasticity score", caption, _draw(scores, known, label, (0.0, 1.0), 2))


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
    return Plot("human_normalized", "Human-normalised score", caption, _draw(scores, known, label, (0.0,), 3))


def _draw(scores: AgentScores, known: dict[str, Score], label: str, least: tuple[float, ...], digits: int) -> Figure:
    """Return a figure with one row per arm. least: values that the axis always includes. digits: decimal places."""
    figure = new_figure(0.75 + 0.42 * len(known), width=8.0)
    axes = figure.subplots()
    rows = {arm: score_cell(value, digits) for arm, value in known.items()}
    draw_rows(axes, {arm: cell for arm, cell in rows.items() if cell is not None}, arm_styles(list(scores.arms)))
    axes.update_datalim([(value, 0.0) for value in least])
    axes.autoscale_view(scaley=False)
    axes.set_xlabel(label, fontsize=9.5, color=INK)
    return figure


def _intervals(known: dict[str, Score]) -> str:
    bootstrap = bootstrap_words(list(known.values()))
    return f"bars: {bootstrap}" if bootstrap else "1 seed: no interval, so differences may be due to chance"
