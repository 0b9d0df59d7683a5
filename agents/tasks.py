"""The tasks of an agent: the environment in which it acts at each step."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from supple.engine.work import Task
from supple.envs import Shifts, make_env, resolve_env
from supple.envs.make import Kwargs
from supple.registry.errors import UsageError, refusing


@dataclass(frozen=True)
class EnvTask(Task):
    """A task of a stream: the agent acts in `env` for the steps start ≤ step < end, counted over all copies.

    Attributes:
        env: The Gymnasium id.
        cycle: The number of completed passes through the sequence, from 0.
        shift: The values of this task's shifts, by the names of shift and value (see `Shifts.values`). For a stack of
            agents, these for each seed.
    """

    env: str
    cycle: int
    shift: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, int]:
        return {**super().labels, "cycle": self.cycle}


class OwnTask(EnvTask):
    """The only task of a run in an environment that says itself when its task changes."""

    switching = True


def make_tasks(
    envs: Sequence[str], cycles: int, steps_per_task: int, kind: type[EnvTask] = EnvTask
) -> tuple[EnvTask, ...]:
    """Return the tasks of `cycles` passes through `envs`, each with `steps_per_task` environment steps.

    Raises ValueError if an environment is unknown."""
    visits = [(cycle, resolve_env(env)) for cycle in range(cycles) for env in envs]
    return tuple(
        kind(index, index * steps_per_task, (index + 1) * steps_per_task, env, env, cycle)
        for index, (cycle, env) in enumerate(visits)
    )


def shift_tasks(
    tasks: tuple[EnvTask, ...], shifts: Shifts | None, seeds: Sequence[int], kwargs: Kwargs | None = None
) -> tuple[EnvTask, ...]:
    """Return the tasks with the values of their shifts, which depend only on the seed and the index of the task.

    Args:
        tasks: The tasks without shifts.
        shifts: The shifts between them, or None.
        seeds: The seed of the run, 0 or more, or those of a stack.
        kwargs: The keyword arguments of the environments.

    Raises:
        UsageError: A shift does not fit one of the environments, lasts longer than a task, or never begins.
    """
    if shifts is None:
        return tasks
    for shift in shifts.parts:
        if shift.from_task >= len(tasks) and shift.name != "none":
            raise UsageError(
                f"--shift: {shift} never begins: its first task is {shift.from_task}, but the last task of the run is "
                f"{len(tasks) - 1}, counted from 0. Increase --cycles or lower from_task"
            )
    values: dict[int, dict[str, Any]] = {}
    for name in dict.fromkeys(task.env for task in tasks):
        with closing(make_env(name, kwargs=kwargs)) as env, refusing("--shift"):
            shifts.check(env, tasks[0].steps)
            for index in (task.index for task in tasks if task.env == name):
                own = {str(seed): shifts.values(env, seed, index) for seed in seeds}
                values[index] = own if len(own) > 1 else own[str(seeds[0])]
    return tuple(replace(task, shift=values[task.index]) for task in tasks)
