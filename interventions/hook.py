"""A hook: an intervention and its schedule, with the text form that every script uses."""

from dataclasses import dataclass, field
from typing import Any

from .base import Intervention, make
from .grammar import parse_hook_text
from .schedule import Schedule


@dataclass
class Hook:
    """An intervention that is due when its schedule says so; without a schedule it acts continuously.

    `memory` is what the schedule remembers between moments; it belongs to the checkpoint.
    """

    text: str
    intervention: Intervention
    schedule: Schedule | None
    memory: dict[str, bool] = field(default_factory=dict)

    def state_dict(self) -> dict[str, Any]:
        return {"memory": dict(self.memory), "intervention": self.intervention.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.memory = dict(state["memory"])
        self.intervention.load_state_dict(state["intervention"])


def parse_hook(text: str, default: Schedule | None = None) -> Hook | None:
    """The hook that a text such as `fire(steps=5)@0.5` describes; None for `none`.

    default: the schedule of an intervention that is applied at moments but names none in the text.
    Raises ValueError, in one line: HookSyntaxError points at the character; unknown names and parameters
    are answered with near ones.
    """
    parsed = parse_hook_text(text)
    if parsed.call is None:
        return None
    intervention = make(parsed.call.name, **parsed.call.params)
    schedule = parsed.schedule
    continuous = intervention.has("penalty") or intervention.has("after_update")
    if schedule is None and not continuous:
        schedule = default
    if schedule is None and not continuous:
        raise ValueError(f"'{text}' needs a schedule: when? For example {parsed.call}@0.5 or {parsed.call}@task")
    if schedule is not None and not intervention.has("apply"):
        raise ValueError(
            f"'{text}': {intervention.name} acts all the time and takes no schedule; leave out @{schedule}"
        )
    return Hook(str(parsed) if schedule == parsed.schedule else f"{parsed}@{schedule}", intervention, schedule)
