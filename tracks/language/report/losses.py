"""The figure of pretraining: losses from each start."""

from supple.reports.figures.style import INK, Plot, legend, new_panels, seeds_phrase, step_unit, tidy
from supple.reports.studies.evaluation_figures import CUT, cut_losses, draw_arms
from supple.reports.studies.study import ReportedStudy


def draw_validation_loss(study: ReportedStudy, name: str = "val_loss") -> Plot | None:
    """Plot the loss over the updates since each start, one panel per start and one line per arm (FIRE, Figure 3).

    Return None with a single start, whose curves `plot_views` plots.
    """
    if len(study.groups) < 2:
        return None
    figure, grid = new_panels(len(study.groups), 0.4, 3.2, sharex=True, sharey=True)
    divisor, label, _ = step_unit(max(group.data.total_steps for group in study.groups), "updates")
    tops, bottoms = zip(
        *(draw_arms(axes, g.data, name, divisor) for axes, g in zip(grid, study.groups, strict=True)), strict=True
    )
    for axes, group in zip(grid, study.groups, strict=True):
        tidy(axes, group.words)
        axes.set_xlim(0, None)
        axes.set_xlabel(label, fontsize=9.5, color=INK)
        axes.tick_params(labelbottom=True)
    cut = cut_losses(grid[0], max(tops), min(bottoms))
    grid[0].set_ylabel("validation loss", fontsize=9.5, color=INK)
    legend(figure, list(study.arms))
    caption = (
        "Updates since the start of the second phase; a line begins right after what intervened there. "
        f"{CUT if cut else ''}" + seeds_phrase(study.groups[0].data.seeds)
    )
    return Plot("validation_loss", "Validation loss from each start", caption, figure)
