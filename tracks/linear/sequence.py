"""The sequence of tasks of a run, by their names."""

import numpy as np

from supple.engine.seeding import derive
from supple.registry import describe_unknown
from supple.registry.errors import UsageError

from . import tasks
from .tasks import LinearTask

STREAM = {
    "random": "a new random regression: whitened Gaussian inputs, Gaussian targets",
    "semantic": "the hierarchy of eight items and their eight features",
    "reversal": "the task before with its largest singular vector reversed",
    "scaled": "the task before with its targets doubled",
    "feature": "the task before, in which one item has one of the features that it lacked",
}
FRESH = ("random", "semantic")  # the others change the task before them


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a text such as `semantic,reversal`. Raises UsageError if they are not a sequence of tasks."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in STREAM:
            raise UsageError(f"--tasks {text}: {describe_unknown('task', name, STREAM)}")
    if names[0] not in FRESH:
        raise UsageError(f"--tasks {text}: {names[0]} changes the task before it: begin with {' or '.join(FRESH)}")
    return names


def make_sequence(text: str, n_in: int, n_out: int, samples: int, seed: int) -> list[tuple[str, LinearTask]]:
    """Return pairs (name, task) in their order. The random numbers of a task depend on the seed and its position only.

    Args:
        text: The names of the tasks, with commas between them.
        n_in: N_i, of random tasks.
        n_out: N_o, of random tasks.
        samples: P, of random tasks, ≥ n_in.
        seed: The run's seed.

    Raises UsageError if the names are not a sequence of tasks, or if no item can get a new feature.
    """
    named_tasks: list[tuple[str, LinearTask]] = []
    for place, name in enumerate(names_of(text)):
        rng = np.random.default_rng(derive(seed, "task", place))
        if name == "random":
            task = tasks.random_regression(n_in, n_out, samples, rng=rng)
        elif name == "semantic":
            task = tasks.semantic_hierarchy()
        elif name == "reversal":
            task = tasks.reversal(task)
        elif name == "scaled":
            task = tasks.scale_targets(task)
        elif len(lacking := np.argwhere(task.y == 0)):
            feature, item = rng.choice(lacking)
            task = tasks.add_feature(task, int(feature), int(item))
        else:
            raise UsageError(
                f"--tasks {text}: feature needs an item that lacks one, as after semantic; here all items have all"
            )
        named_tasks.append((name, task))
    return named_tasks
