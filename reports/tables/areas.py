"""Areas under learning curves."""

import numpy as np

from supple.experiments.history.data import RunData
from supple.metrics import Array, learning_curve_area

from .statistics import NAN


def areas(run: RunData, since: int = 0) -> Array:
    """Return the area under the learning curve of each task from step `since` on, (tasks,).

    NaN for tasks that ended before `since`, and for tasks whose final window the run has not reached."""
    area_of_task = np.full(len(run.tasks), NAN)
    for i, task in enumerate(run.tasks):
        if task.end > since and run.last_step >= task.window:
            area_of_task[i] = learning_curve_area(*run.episodes.of(task), max(task.start, since), task.end)
    return area_of_task


def mean_return(run: RunData, since: int, environments: int) -> Array:
    """Return the mean return of each environment from step `since` on, (environments,).

    It is the mean of the areas of its tasks, weighted by their lengths. NaN if one of the tasks is unfinished."""
    area_of_task = areas(run, since)
    length = np.array([max(0, task.end - max(task.start, since)) for task in run.tasks])
    place = np.array([task.index for task in run.tasks]) % environments
    after = length > 0
    sums = np.bincount(place[after], (area_of_task * length)[after], environments)
    steps = np.bincount(place[after], length[after], environments)
    return np.divide(sums, steps, out=np.full(environments, NAN), where=steps > 0)
