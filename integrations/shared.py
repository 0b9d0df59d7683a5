"""The parts that all callbacks share: parsing and checking hooks, recording events, adding penalties."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..experiments.hooks import HookDriver
from ..interventions import AtTask, Hook, Learner, When, parse_hook, parse_hook_text


def read(hooks: Sequence[str]) -> list[Hook]:
    """Return the hooks that the texts describe. Raises ValueError if a text is invalid or given twice."""
    if isinstance(hooks, str):
        raise ValueError(f"hooks must be a list: use hooks=[{hooks!r}]")
    found: list[Hook] = []
    for hook in map(parse_hook, hooks):
        if hook is None:
            continue
        if hook.text in (other.text for other in found):
            raise ValueError(f"{hook.text} is given twice")
        found.append(hook)
    return found


def check(hooks: Sequence[Hook], total: int, start: int, measured: bool, begins: bool = True) -> None:
    """Raise ValueError if a hook never fires in this run.

    begins: whether the run begins here. In a resumed run, hooks may already have fired."""
    for hook in hooks:
        if begins and (problem := parse_hook_text(hook.text).problem(total, start)):
            raise ValueError(problem)
        if isinstance(hook.schedule, When) and not measured:
            raise ValueError(f"{hook.text} never fires: its condition needs measurements, but measure_every is 0")


def warn_unfired(hooks: Sequence[Hook], total: int, switches: int | None = None) -> None:
    """Warn about hooks that have not fired by the end of training.

    switches: the number of task switches that the user has announced. None if training may go on with more."""
    for hook in hooks:
        if hook.waits:
            warnings.warn(f"{hook.text} has not fired: its condition was never met", stacklevel=2)
        elif isinstance(hook.schedule, AtTask) and hook.schedule.problem(total, switches=switches):
            reason = f"new_task() announced {switches} task switch{'es' if switches != 1 else ''}"
            warnings.warn(f"{hook.text} has not fired: {reason}", stacklevel=2)


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

    file: each event is appended to it as a line of JSON. verbose: print a line for each event."""

    def __init__(self, file: str | Path | None = None, verbose: bool = False) -> None:
        super().__init__()
        self.file = None if file is None else Path(file)
        self.verbose = verbose

    def begin(self) -> None:
        """Raise OSError now, and not at the first event, if the file cannot be written."""
        if self.file is not None:
            self.file.open("a").close()

    def log(self, **fields: Any) -> None:
        """Record an event."""
        event = json.loads(json.dumps(fields), parse_constant=lambda _: None)  # JSON has no NaN and no infinity
        self.append(event)
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(json.dumps(event) + "\n")
        if self.verbose:
            print(f"supple: {event['hook']} on {event['learner']} at step {event['step']}")
