"""What the callbacks for other people's training loops share: hooks read and checked, events kept, penalties added."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..experiments.hooks import HookDriver
from ..interventions import Hook, Learner, When, parse_hook, parse_hook_text


def read(hooks: Sequence[str]) -> list[Hook]:
    """Return hooks by their texts. Raises ValueError, in one line, for a text that is none, or is given twice."""
    if isinstance(hooks, str):
        raise ValueError(f"hooks is a list of texts: hooks=[{hooks!r}]")
    found: list[Hook] = []
    for hook in map(parse_hook, hooks):
        if hook is None:
            continue
        if hook.text in (other.text for other in found):
            raise ValueError(f"{hook.text} is given twice")
        found.append(hook)
    return found


def check(hooks: Sequence[Hook], total: int, start: int, measured: bool, begins: bool = True) -> None:
    """Raise ValueError, in one line, for a hook that never acts in this run.

    begins: whether it begins here: what a run that goes on has behind it is no mistake."""
    for hook in hooks:
        if begins and (problem := parse_hook_text(hook.text).problem(total, start)):
            raise ValueError(problem)
        if isinstance(hook.schedule, When) and not measured:
            raise ValueError(f"{hook.text} never fires: measure_every=0 measures nothing")


def add_penalty(driver: HookDriver, learner: Learner) -> None:
    """Add the gradient of the hooks' loss terms to `.grad`, as if they had been part of the loss."""
    parameters = [p for p in learner.module.parameters() if p.requires_grad]
    with torch.enable_grad():
        penalty = driver.penalty(learner)
    if not penalty.requires_grad:  # no hook has a term for this learner
        return
    gradients: Sequence[Tensor | None] = torch.autograd.grad(penalty, parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is not None:
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


class Events(list[dict[str, Any]]):
    """The events of a run in their order, as `events.jsonl` has them.

    file: one to which each is appended as a line of JSON. verbose: print a line for each."""

    def __init__(self, file: str | Path | None = None, verbose: bool = False) -> None:
        super().__init__()
        self.file = None if file is None else Path(file)
        self.verbose = verbose

    def begin(self) -> None:
        """Fail now, rather than at the first event, where the file cannot be written."""
        if self.file is not None:
            self.file.open("a").close()

    def log(self, **fields: Any) -> None:
        """Take up an event."""
        event = json.loads(json.dumps(fields), parse_constant=lambda _: None)  # JSON has no NaN and no infinity
        self.append(event)
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(json.dumps(event) + "\n")
        if self.verbose:
            print(f"supple: {event['hook']} on {event['learner']} at step {event['step']}")
