"""Figures of the aggregate scores: one point and one interval per arm, over seeds and environments."""

from supple.metrics import Score
from supple.reports.figures.measures import draw_rows
from supple.reports.figures.style import INK, Plot, arm_styles, new_figure
from supple.reports.tables.cells import Form, Number

from .scores import AgentScores
from .tables import bootstrap_sentence, human_source


def plot_plasticity(scores: AgentScores) -> Plot | None:
    """Plot the plasticity score of each arm, with its bootstrap interval."""
    words = (
        "Interquartile mean over seeds and environments. 0 and 1 are the worst and best of the runs shown here (5th "
        "and 95th percentile), so scores of different reports cannot be compared."
    )
    known = {label: arm.plasticity for label, arm in scores.arms.items() if arm.plasticity}
    label = "plasticity score (IQM of min–max normalised final returns)"
    return _plot("plasticity_score", "Plasticity score", words, scores, known, label, (0.0, 1.0), 2)


def plot_human(scores: AgentScores) -> Plot | None:
    """Plot the human-normalised score of each arm, with its bootstrap interval, if there are several arms."""
    words = (
        "Interquartile mean over seeds and games of (return − random) / (human − random): 0 is random play, 1 a human "
        f"tester. Of {human_source(scores)}."
    )
    known = {label: arm.human for label, arm in scores.arms.items() if arm.human and len(scores.arms) > 1}
    label = f"human-normalised score (IQM; {scores.human_from} returns)"
    return _plot("human_normalized", "Human-normalised score", words, scores, known, label, (0.0,), 3)


def _plot(
    name: str, title: str, words: str, scores: AgentScores, known: dict[str, Score], label: str,
    least: tuple[float, ...], digits: int,
) -> Plot | None:  # fmt: skip
    """Return a figure with one row per arm. least: values that the axis always includes. digits: decimal places."""
    if not known:
        return None
    figure = new_figure(0.75 + 0.42 * len(known), width=8.0)
    axes = figure.subplots()
    rows = {arm: Number.of_score(value, Form(decimals=digits)) for arm, value in known.items()}
    draw_rows(axes, rows, arm_styles(list(scores.arms)))
    axes.update_datalim([(value, 0.0) for value in least])
    axes.autoscale_view(scaley=False)
    axes.set_xlabel(label, fontsize=9.5, color=INK)
    return Plot(name, title, f"{words} {bootstrap_sentence(list(known.values()))}", figure)
