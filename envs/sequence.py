"""Streams of tasks: which environment is trained on at which step (paper 002, section 7)."""

from collections.abc import Sequence
from dataclasses import dataclass

from .make import resolve_env

SEQUENCES = {
    # The order in the text of section 7 (written there with v4 ids; the v5 tasks are used here).
    "cycling-text": ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5"),
    # The order that the tables and figures of appendix F show.
    "cycling-tables": ("HalfCheetah-v5", "Humanoid-v5", "Ant-v5", "Hopper-v5"),
}


@dataclass(frozen=True, slots=True)
class Task:
    """One stretch of a stream: the agent lives in `env` for the steps start ≤ step < end.

    index: position in the whole stream, from 0. cycle: how often the sequence was completed before, from 0.
    env: Gymnasium id. start, end: agent–environment steps since training began, all environments counted.
    """

    index: int
    cycle: int
    env: str
    start: int
    end: int


def parse_sequence(text: str) -> tuple[str, ...]:
    """Gymnasium ids from a named sequence (`cycling-text`) or a comma list of environments (`hopper,ant`).

    An environment may appear more than once. Raises ValueError for an empty item or an unknown name.
    """
    if text.strip().lower() in SEQUENCES:
        return SEQUENCES[text.strip().lower()]
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise ValueError(
            f"empty item in sequence {text!r}: write environments with single commas between them, "
            f"or one of {', '.join(SEQUENCES)}"
        )
    return tuple(resolve_env(name) for name in names)


def task_stream(envs: Sequence[str], cycles: int, steps_per_task: int) -> tuple[Task, ...]:
    """The sequence `envs`, `cycles` times over, `steps_per_task` agent–environment steps for each visit.

    Raises ValueError for an empty sequence, an unknown environment, or counts below 1.
    """
    if not envs:
        raise ValueError("a task stream needs at least one environment")
    if cycles < 1:
        raise ValueError(f"cycles must be at least 1, got {cycles}")
    if steps_per_task < 1:
        raise ValueError(f"steps_per_task must be at least 1, got {steps_per_task}")
    visits = [(cycle, resolve_env(env)) for cycle in range(cycles) for env in envs]
    return tuple(
        Task(index, cycle, env, index * steps_per_task, (index + 1) * steps_per_task)
        for index, (cycle, env) in enumerate(visits)
    )


def task_at(stream: Sequence[Task], step: int) -> Task:
    """The task to which agent–environment step `step` (from 0) belongs; ValueError outside the stream."""
    for task in stream:
        if task.start <= step < task.end:
            return task
    raise ValueError(f"step {step} is outside the task stream, which covers 0 to {stream[-1].end - 1}")
