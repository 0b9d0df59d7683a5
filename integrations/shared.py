"""The parts that all callbacks share: parsing and checking hooks, recording events, adding penalties."""

import copy
import json
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

from supple.engine.hooks.driver import HookDriver
from supple.engine.storage.restoring import require_like
from supple.engine.storage.strict_json import json_line
from supple.interventions import Hook, Learner, When, parse_hook
from supple.networks.parameters import named_tensors
from supple.networks.state_dicts import list_names


def parse_hooks(hooks: Sequence[str]) -> list[Hook]:
    """Return the hooks that the texts describe. Raises ValueError if a text is invalid or given twice."""
    if isinstance(hooks, str):
        raise ValueError(f"hooks must be a list: use hooks=[{hooks!r}]")
    parsed = [hook for hook in map(parse_hook, hooks) if hook is not None]
    texts = [hook.text for hook in parsed]
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise ValueError(f"{twice[0]} is given twice")
    return parsed


def require_no_finish(hooks: Iterable[Hook]) -> None:
    """Raise ValueError if a hook needs the data of a task that has ended in an earlier process."""
    for hook in hooks:
        if hook.intervention.has("finish_task"):
            raise ValueError(f"{hook.text} needs the data of the task that ends: call new_task() before saving")


def check_hooks(hooks: Sequence[Hook], total: int, start: int, measured: bool, begins: bool = True) -> None:
    """Check when the hooks fire, and warn of those that do not: another training may reach steps beyond this one's end.

    Args:
        hooks: The hooks.
        total: The planned steps.
        start: The step at which learning begins or continues.
        measured: Whether there are measurements, which conditions need.
        begins: Whether the hooks begin here. With a state of an earlier part of the run, they may already have fired.

    Raises:
        ValueError: A hook never fires in any training.
    """
    for hook in hooks:
        if begins and hook.schedule and hook.schedule.problem(total, start):
            beyond = hook.schedule.problem(total)
            behind = f"learning continues at step {start} of {total}, after its last step"
            reason = beyond.removeprefix("never fires: ") if beyond else behind
            warnings.warn(f"{hook.text} does not fire: {reason}", stacklevel=2)
        if isinstance(hook.schedule, When) and not measured:
            raise ValueError(f"{hook.text} never fires: its condition needs measurements, but measure_every is 0")


def warn_unfired(hooks: Sequence[Hook], step: int, switches: int | None) -> None:
    """Warn about hooks that have not fired by the end of training.

    Args:
        hooks: The hooks.
        step: The step that training has reached.
        switches: The number of task switches; None if more may follow.
    """
    for hook in hooks:
        problem = hook.schedule.problem(step, switches=switches) if hook.schedule else None
        if reason := hook.obstacle() if hook.waits() else problem:
            warnings.warn(f"{hook.text} has not fired: {reason.removeprefix('never fires: ')}", stacklevel=2)


class LearnerState(TypedDict):
    """The state of a learner that a callback saves. Its network and optimizer are in the checkpoint of the trainer."""

    initial: dict[str, Any]
    marked: dict[str, Any] | None
    generator: Any


def learner_state(learner: Learner) -> LearnerState:
    """Return the state of a learner in new tensors."""
    return copy.deepcopy(
        LearnerState(initial=learner.initial, marked=learner.marked, generator=learner.generator.get_state())
    )


def restore_learner(learner: Learner, state: LearnerState) -> None:
    """Restore a state that `learner_state` returned, before hooks are attached: they look at the values of step 0.

    Raises ValueError if names or shapes are not those of the learner's network."""
    of, marked = f"'{learner.name}' in the saved state", state["marked"]
    tensors = named_tensors(learner.module)
    if missing := learner.trained().keys() - state["initial"].keys():
        raise ValueError(f"initial of {of} lacks {list_names(sorted(missing))}: it is the state of another network")
    initial = _fit_tensors(state["initial"], tensors, f"initial of {of}")
    learner.initial.clear()  # and not another dictionary: the learner's `redraw` looks at this one
    learner.initial.update(initial)
    learner.marked = None if marked is None else _fit_tensors(marked, tensors, f"marked of {of}")
    learner.generator.set_state(state["generator"].cpu())


def _fit_tensors(values: dict[str, Tensor], like: dict[str, Tensor], what: str) -> dict[str, Tensor]:
    if strangers := sorted(values.keys() - like.keys()):
        raise ValueError(f"{what} has {list_names(strangers)}: it is the state of another network")
    templates = {name: like[name].detach().cpu() for name in values}
    return {
        n: require_like(v.cpu(), templates[n], f"{what}.{n}").to(like[n].device, copy=True) for n, v in values.items()
    }


def add_penalty(driver: HookDriver, learner: Learner) -> None:
    """Add the gradient of the hooks' penalties to `.grad`, as if they were part of the loss."""
    parameters = [p for p in learner.module.parameters() if p.requires_grad]
    with torch.enable_grad():
        penalty = driver.penalty(learner)
    if not penalty.requires_grad:  # no hook has a penalty for this learner
        return
    gradients: Sequence[Tensor | None] = torch.autograd.grad(penalty, parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is not None:
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


class Events(list[dict[str, Any]]):
    """The events of a run in order, with the contents of `events.jsonl`.

    Args:
        file: Each event is appended to it as a line of JSON.
        verbose: Print a line for each event.
    """

    def __init__(self, file: str | Path | None = None, verbose: bool = False) -> None:
        super().__init__()
        self.file = None if file is None else Path(file)
        self.verbose = verbose

    def begin(self) -> None:
        """Raise OSError now, and not at the first event, if the file cannot be written."""
        if self.file is not None:
            self.file.open("ab").close()

    def log(self, **fields: Any) -> None:
        """Record an event."""
        line = json_line(fields)
        self.append(event := json.loads(line))
        if self.file is not None:
            with self.file.open("ab") as file:
                file.write(line)
        if self.verbose:
            sys.stdout.write(f"supple: {event['hook']} on {event['learner']} at step {event['step']}\n")
