"""Parse the texts of hooks, and check them against the run for which they are meant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from supple.interventions import AtStart, Hook, Learner, parse_hook, parse_hook_text
from supple.interventions.schedule import AtTask
from supple.registry.errors import UsageError, refusing

from .driver import HookDriver
from .event import NO_EXTRAS, ExtraMeasurements


@dataclass(frozen=True)
class Span:
    """The place of a task in a run: its index, and its first and last step.

    `switching`: the world changes in it by itself, at steps that are not known before.
    """

    index: int
    start: int
    end: int
    switching: ClassVar[bool] = False


def read_hooks(
    texts: Sequence[str],
    tasks: Sequence[Span],
    learners: Mapping[str, Learner],
    start: int = 0,
    extras: ExtraMeasurements = NO_EXTRAS,
    planned: int | None = None,
    seeds: Sequence[int] = (),
) -> HookDriver:
    """Return the driver of these hooks.

    Args:
        texts: The texts of the hooks.
        tasks: The tasks of the run.
        learners: Its learners by name.
        start: The step at which the run begins. If it is above 0, the run is an arm of a fork, and a hook without a
            schedule is applied there.
        extras, planned, seeds: As in `HookDriver`.

    Raises:
        UsageError: A hook cannot be parsed, never fires in this run, is given twice, or fits no learner.
    """
    hooks, total = parse_hooks(texts, tasks, start), tasks[-1].end
    with refusing(_option(start)):
        return HookDriver(
            hooks, learners, lambda **_: None, total, start, ends=True, extras=extras, planned=planned, seeds=seeds
        )


def parse_hooks(texts: Sequence[str], tasks: Sequence[Span], start: int = 0) -> list[Hook]:
    """Return these hooks. Raises UsageError if one cannot be parsed, never fires in this run, or is given twice."""
    total = tasks[-1].end
    switches = [task.index for task in tasks[1:] if task.start >= start]
    planned = not tasks[-1].switching
    hooks: list[Hook] = []
    problems: list[str] = []  # all are reported together, like those of the settings
    for text in texts:
        try:
            hook = parse_hook(text, default=AtStart() if start else None)
        except ValueError as error:
            problems.append(str(error))
            continue
        if hook is None:
            continue
        when = hook.schedule
        last = total - bool(when and when.recurs)  # a recurring hook does not fire at the last step
        if problem := parse_hook_text(text).problem(last, start, tasks[-1].index if planned else None):
            problems.append(problem)
        elif planned and isinstance(when, AtTask) and (when.number not in (None, *switches) or not switches):
            problems.append(f"{text} never fires: there is no such task switch at or after step {start}")
        elif hook.text in (other.text for other in hooks):
            problems.append(f"{hook.text} is given twice")
        hooks.append(hook)
    if problems:
        raise UsageError(f"{_option(start)}: {'; '.join(problems)}")
    return hooks


def _option(start: int) -> str:
    return "--arm" if start else "--hook"
