"""The hooks that a user wrote, checked against the run that they are for."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..interventions import AtStart, Every, Hook, Learner, parse_hook, parse_hook_text
from ..interventions.schedule import AtTask
from .errors import UsageError
from .hooks import NOTHING, Asked, HookDriver, LogEvent


class Span(Protocol):
    """One task of a stream: its place, and the steps between which it is learned."""

    @property
    def index(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def read_hooks(
    texts: Sequence[str],
    tasks: Sequence[Span],
    learners: Mapping[str, Learner],
    start: int = 0,
    log: LogEvent = lambda **_: None,
    asked: Asked = NOTHING,
    planned: int | None = None,
) -> HookDriver:
    """Return the driver of these hooks, which must fire in this run and have their place in these learners.

    start > 0: a fork, where a hook without a schedule is applied at the fork. asked,
    planned: as of `HookDriver`. Raises UsageError.
    """
    option, total = "--arm" if start else "--hook", tasks[-1].end
    switches = [task.index for task in tasks[1:] if task.start >= start]
    hooks: list[Hook] = []
    problems: list[str] = []  # all are told at once, as those of the settings
    for text in texts:
        try:
            hook = parse_hook(text, default=AtStart() if start else None)
        except ValueError as error:
            problems.append(str(error))
            continue
        if hook is None:
            continue
        when = hook.schedule
        last = total - isinstance(when, Every)  # what recurs is not due where the run ends
        if problem := parse_hook_text(text).problem(last, start, tasks[-1].index):
            problems.append(problem)
        elif (isinstance(when, AtTask) and when.number not in (None, *switches)) or (when == AtTask() and not switches):
            problems.append(f"{text} never fires: there is no such task switch from step {start} on")
        elif hook.text in (other.text for other in hooks):
            problems.append(f"{hook.text} is given twice")
        hooks.append(hook)
    if problems:
        raise UsageError(f"{option}: {'; '.join(problems)}")
    try:
        return HookDriver(hooks, learners, log, total, start, ends=True, asked=asked, planned=planned)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
