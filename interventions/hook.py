"""A hook: an intervention and its schedule, with the text form that every script uses."""

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from ..networks.learner import Learner
from .base import Intervention, make
from .grammar import parse_hook_text
from .schedule import AtStart, Memory, Moment, Schedule


@dataclass
class Hook:
    """An intervention that is due when its schedule says so; without a schedule it acts continuously.

    `learner` names the only learner that it is for; None: every one in which the intervention has a place.
    `memory` is what the schedule remembers between moments, by learner; it belongs to the checkpoint.
    """

    text: str
    intervention: Intervention
    schedule: Schedule | None
    memory: dict[str, Memory] = field(default_factory=dict)
    learner: str | None = None

    def concerns(self, learner: Learner) -> bool:
        """Return whether this hook acts on that learner."""
        return self.learner in (None, learner.name) and self.intervention.concerns(learner)

    def due(self, moment: Moment, learner: Learner) -> bool:
        """Return whether the intervention is due on that learner now; ask once for each moment and learner."""
        if self.schedule is None:
            return False
        return self.schedule.due(moment.seen_by(learner.name), self.memory.setdefault(learner.name, {}))

    def state_dict(self) -> dict[str, Any]:
        return {"memory": copy.deepcopy(self.memory), "intervention": self.intervention.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.memory = copy.deepcopy(state["memory"])
        self.intervention.load_state_dict(state["intervention"])


def parse_hook(text: str, default: Schedule | None = None) -> Hook | None:
    """Return the hook that a text such as `fire(steps=5)@0.5` or `critic/fire@task` describes; None for `none`.

    default: the schedule of an intervention that is applied at moments but names none in the text; None: the start,
        for one that makes sense there (`Intervention.at_start`).
    Raises ValueError, in one line: HookSyntaxError points at the character; unknown names and parameters
    are answered with near ones. Whether there is such a learner is for the driver to say.
    """
    parsed = parse_hook_text(text)
    if parsed.call is None:
        return None
    intervention = make(parsed.call.name, **parsed.call.params)
    schedule = parsed.schedule
    continuous = intervention.has("penalty") or intervention.has("after_update")
    applied = intervention.has("apply")
    if schedule is None and applied and (intervention.at_start or not continuous):
        schedule = AtStart() if default is None and intervention.at_start else default
    if schedule is None and applied:
        raise ValueError(f"'{text}' needs a schedule: when? For example {parsed}@0.5 or {parsed}@task")
    if schedule is not None and not applied:
        raise ValueError(
            f"'{text}': {intervention.name} acts all the time and takes no schedule; leave out @{schedule}"
        )
    return Hook(str(replace(parsed, schedule=schedule)), intervention, schedule, learner=parsed.learner)
