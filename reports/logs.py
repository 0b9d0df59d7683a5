"""The report of logs of other programs: curves, final and mean values of arms, paired differences, and old tasks."""

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.experiments.history.collect import notes_of_unfinished
from supple.experiments.history.data import TAIL, ComparisonData

from .studies.content import Description, Report
from .tables.areas import mean_return
from .tables.arms import arms_table
from .tables.differences import Measure, measures_of
from .tables.old_tasks import old_tasks_json, read_old_tasks
from .tables.statistics import Spread, spread_json

if TYPE_CHECKING:
    from .figures.style import Plot

PAIRED = "Differences are paired by seed. Seeds that only one of two arms has are left out of them."


def describe(data: ComparisonData) -> Description:
    """Return what there is to say of the runs of `read_others`.

    The entries of scores.json are `value` (what was logged), `total_steps`, and `arms`: label → `seeds`, `final` and
    `mean` (see `spread_json`), and `old_tasks` where there are values on them (see `old_tasks_json`).
    """
    value, old = str(data.first.settings.value), read_old_tasks(data, shares=False)
    final = f"Final {value}: mean of the values in the last {100 * TAIL:.0f} % of the last task."
    area = f"Mean {value}: area under the curve of the task in training, divided by its steps."
    numbers = {
        "final": (final, lambda run: run.final_return(run.tasks[-1])),
        "mean": (area, lambda run: mean_return(run, 0, 1)[0]),
    }
    seeds = {arm: list(map(attrgetter("seed"), runs)) for arm, runs in data.arms.items()}
    arms: dict[str, dict[str, Any]] = {arm: {"seeds": seeds[arm]} | old_tasks_json(old, arm) for arm in seeds}
    measures: list[Measure] = []
    for name, (meaning, number) in numbers.items():
        spreads = {arm: Spread(np.array(list(map(number, runs))), seeds[arm]) for arm, runs in data.arms.items()}
        for arm, spread in spreads.items():
            arms[arm][name] = spread_json(spread)
        measures += [replace(each, meaning=meaning) for each in measures_of(data, f"{name} {value}", spreads)]
    baseline = measures[0].baselines[0]
    alone = [arm for arm in seeds if set(seeds[arm]).isdisjoint(seeds[baseline])]
    tasks = max(len(run.tasks) for run in data.runs)

    def plots() -> "list[Plot | None]":
        from .figures.heat_maps import plot_old_tasks
        from .figures.streams import WINDOW, draw_stream, training_curve
        from .figures.style import Plot, seeds_phrase_of

        caption = f"Mean of the values in the preceding {100 * WINDOW:.0f} % of a task. Vertical lines: task switches. "
        caption += seeds_phrase_of(data)
        figure = draw_stream(data, [""], training_curve, value)
        return [Plot("curves", "Curves", caption, figure), *map(plot_old_tasks, old)]

    return Description(
        data,
        f"{tasks} task{'s' * (tasks > 1)}",
        {"value": value, "total_steps": data.total_steps, "arms": arms},
        [arms_table([measure]) for measure in measures],
        measures,
        plots,
        [PAIRED] if len(seeds) > 1 else [],
        [
            *data.notes,
            *notes_of_unfinished(data, "its final and mean values are left out", lambda run: run.tasks[-1].window),
            *(f"{arm} and {baseline} have no seed in common, so there is no paired test" for arm in alone),
        ],
        old,
    )


LOGS = Report("logged runs", describe)
