"""The figure of pretraining: losses from each start."""

from supple.experiments.history.data import ComparisonData
from supple.reports.figures.style import INK, Plot, legend, new_panels, seeds_phrase, step_unit, tidy
from supple.reports.studies.evaluation_figures import CUT, by_variant, cut_losses, draw_arms


def draw_validation_loss(study: ComparisonData, name: str = "val_loss") -> Plot | None:
    """Plot the loss over the updates since each start, one panel per start and one line per arm (FIRE, Figure 3).

    Return None with a single start, whose curves `plot_views` plots.
    """
    variants = by_variant(study)
    if len(variants) < 2:
        return None
    figure, grid = new_panels(len(variants), 0.4, 3.2, sharex=True, sharey=True)
    divisor, label, _ = step_unit(study.total_steps, "updates")
    tops, bottoms = zip(
        *(draw_arms(axes, data, name, divisor) for axes, data in zip(grid, variants.values(), strict=True)), strict=True
    )
    for axes, words in zip(grid, variants, strict=True):
        tidy(axes, words)
        axes.set_xlim(0, None)
        axes.set_xlabel(label, fontsize=9.5, color=INK)
        axes.tick_params(labelbottom=True)
    cut = cut_losses(grid[0], max(tops), min(bottoms))
    grid[0].set_ylabel("validation loss", fontsize=9.5, color=INK)
    legend(figure, list(dict.fromkeys(arm for data in variants.values() for arm in data.arms)))
    caption = (
        "Updates since the start of the second phase; a line begins right after what intervened there. "
        f"{CUT if cut else ''}" + seeds_phrase(study.seeds)
    )
    return Plot("validation_loss", "Validation loss from each start", caption, figure)
