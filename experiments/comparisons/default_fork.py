"""The fork point of a comparison for which none is given: where the hook that acts earliest can act first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from supple.engine.forks import FRESH, NONE, fork_step_of
from supple.engine.kinds import Kind
from supple.engine.work import Task
from supple.interventions import AtStart, Every, When, parse_hook
from supple.interventions.schedule import At, AtTask, AtUpdate

CONTINUOUS = ("penalty", "before_loss", "before_update", "after_update")  # methods called in every update


@dataclass(frozen=True)
class ForkPlace:
    """A fork point, and the line that tells the user where it is and why; "" if the kind of run has it there.

    `step` is 0 if there is no trunk, because arms differ from the beginning.
    """

    step: int
    line: str = ""


@dataclass(frozen=True)
class FirstAction:
    """The step at which a hook can act first; None if it acts where the arm begins.

    `recurs`: It goes on acting, so that an arm that begins later loses a part of it only.
    """

    text: str
    step: int | None
    recurs: bool = False


def find_default_fork(
    kind: Kind, hooks: Iterable[str], tasks: Sequence[Task], stride: int, own_settings: bool
) -> ForkPlace:
    """Return where the arms with these hooks are forked by default.

    Hooks with a schedule decide: the fork is at the last step that is possible before the first of them acts, so that
    no arm loses anything and arms share as much as they can. A condition can hold at the first measurement, and an
    intervention that acts in every update acts in the first one, so these have no trunk. Hooks without a schedule are
    applied at the fork. With them, the fork is where the kind of run has it, or at the first hook before that acts at
    one step or at task switches; what recurs or acts in every update then begins at the fork.

    Args:
        kind: The kind of run.
        hooks: The texts of the hooks of all arms, or `fresh`. Texts that cannot be parsed are ignored here.
        tasks: The tasks of the run.
        stride: Steps between two places at which it can be forked.
        own_settings: Whether an arm has settings of its own, which differ from step 0.
    """
    texts = [text for text in hooks if text != NONE]
    every = [found for text in texts if (found := first_action(kind, text, tasks)) is not None]
    placed = next((found for found in every if found.step is None), None)
    timed = [(found.step, found) for found in every if found.step is not None]
    if own_settings:
        timed.append((0, FirstAction("a setting of one arm", 0)))
    usual = 0
    if (placed or not timed) and (kind.fork_at or kind.fork_at_task is not None):
        usual = fork_step_of(tuple(tasks), stride, kind.fork_at, kind.fork_at_task)
    if placed and usual:
        timed = [(step, found) for step, found in timed if 0 < step < usual and not found.recurs]
    elif placed:
        timed.append((0, placed))
    if not timed:
        return ForkPlace(usual)
    step, first = min(timed, key=lambda each: each[0])
    if step not in (task.start for task in tasks):  # the last step at which there is one stride to come at least
        step = min(step, tasks[-1].end - 1) // stride * stride
    if not step:
        return ForkPlace(0, f"there is no trunk, because {first.text} can act from the start on")
    why = f"{first.text} can act first" + (f", and {placed.text} is applied there" if placed else "")
    return ForkPlace(step, f"arms are forked at step {step:,}, where {why}")


def first_action(kind: Kind, text: str, tasks: Sequence[Task]) -> FirstAction | None:
    """Return where a hook can act first, or None if it never acts or cannot be parsed."""
    if text == FRESH:
        return FirstAction("a fresh agent", tasks[1].start) if len(tasks) > 1 else None
    try:
        hook = parse_hook(text, default=AtStart())
    except ValueError:  # reported when the arm is checked
        return None
    if hook is None:
        return None
    when, total = hook.schedule, tasks[-1].end
    if isinstance(when, AtStart):
        return FirstAction(text, None)
    own = isinstance(when, AtTask) and tasks[-1].switching  # at a step that is not known
    if own or isinstance(when, When) or any(map(hook.intervention.has, CONTINUOUS)):
        return FirstAction(text, 0, recurs=True)
    if isinstance(when, AtUpdate):  # where an agent makes an update, its settings do not say
        return FirstAction(text, when.number if kind.unit == "updates" else 0, when.recurs)
    if isinstance(when, AtTask):
        number = when.number or 1
        return FirstAction(text, tasks[number].start) if number < len(tasks) else None
    if isinstance(when, Every):
        return FirstAction(text, when.resolve(total), recurs=True)
    return FirstAction(text, when.resolve(total)) if isinstance(when, At) else None
