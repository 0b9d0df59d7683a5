"""A hook: an intervention and its schedule, with the text form that every script uses."""

import copy
from dataclasses import dataclass, field, replace
from typing import Any

from supple.networks import Learner

from .base import Intervention, make
from .grammar import parse_hook_text
from .schedule import AtStart, AtUpdate, Memory, Moment, Schedule, When


@dataclass
class Hook:
    """An intervention that is applied when its schedule fires, or acts continuously if it has no schedule.

    `learner` is the name of the only learner that it acts on. If None, it acts on every suitable learner.
    `memory` is what the schedule remembers between moments, by learner or, in a stack of seeds, by learner and position
    of the seed ("agent/0"); checkpoints contain it.
    """

    text: str
    intervention: Intervention
    schedule: Schedule | None
    memory: dict[str, Memory] = field(default_factory=dict)
    learner: str | None = None

    def concerns(self, learner: Learner) -> bool:
        """Return whether this hook acts on that learner."""
        return self.learner in (None, learner.name) and self.intervention.concerns(learner)

    def due(self, moment: Moment, learner: Learner, seed: int | None = None) -> bool:
        """Return whether the hook fires on that learner now. Call it once for each moment and learner.

        For a stack of seeds, call it for each seed, by its position.
        """
        if self.schedule is None:
            return False
        key = learner.name if seed is None else f"{learner.name}/{seed}"
        return self.schedule.due(moment.for_learner(learner.name), self.memory.setdefault(key, {}))

    def waits(self, seed: int | None = None) -> bool:
        """Return whether the schedule waits for what no learner (of this seed) has met so far."""
        waits = isinstance(self.schedule, When | AtUpdate)
        return waits and not any(memory.get("fired") for memory in self._memories(seed).values())

    def obstacle(self, seed: int | None = None) -> str:
        """Return the reason why a hook that `waits` has not fired, for messages."""
        if not isinstance(self.schedule, When):
            return "that update does not lie in the run, or in its part after the fork"
        memories = self._memories(seed)
        if not memories or any(memory.get("measured") for memory in memories.values()):
            return "its condition was never met"
        metric, learners = self.schedule.metric, " and ".join(map(repr, memories))
        return f"{metric} was never measured" + ("" if "/" in metric else f" on {learners}")  # critic/srank names it

    def _memories(self, seed: int | None) -> dict[str, Memory]:
        """Return what the schedule remembers by learner, in a stack that of one seed."""
        if seed is None:
            return self.memory
        end = f"/{seed}"
        return {key.removesuffix(end): memory for key, memory in self.memory.items() if key.endswith(end)}

    def state_dict(self) -> dict[str, Any]:
        return {"memory": copy.deepcopy(self.memory), "intervention": self.intervention.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.memory = copy.deepcopy(state["memory"])
        self.intervention.load_state_dict(state["intervention"])


def parse_hook(text: str, default: Schedule | None = None) -> Hook | None:
    """Return the hook described by a text such as `fire(steps=5)@0.5` or `critic/fire@task`; None for `none`.

    The caller checks whether a learner of that name exists.

    Args:
        text: The hook, in the form that grammar.py describes.
        default: The schedule for an intervention that needs one if the text has none. If None, an intervention with
            `Intervention.at_start` is applied at the start, and others raise an error.

    Raises:
        ValueError: In one line. CallSyntaxError names the position of the character. For unknown names and parameters
            the message suggests similar ones.

    Examples:
        >>> from supple.interventions import parse_hook
        >>> hook = parse_hook("critic/snp(lam=0.5)@every:1000")
        >>> str(hook.intervention), str(hook.schedule), hook.learner
        ('snp(lam=0.5)', 'every:1000', 'critic')
        >>> parse_hook("snp")
        Traceback (most recent call last):
        ValueError: 'snp' needs a schedule, for example snp@0.5 or snp@task
    """
    parsed = parse_hook_text(text)
    if parsed.call is None:
        return None
    intervention = make(parsed.call.name, **parsed.call.params)
    schedule = parsed.schedule
    continuous = intervention.has("penalty") or intervention.has("after_update")
    applied, at_start = intervention.has("apply"), bool(intervention.at_start)
    if schedule is None and applied and (at_start or not continuous):
        schedule = AtStart() if default is None and at_start else default
    if schedule is None and applied:
        raise ValueError(f"'{text}' needs a schedule, for example {parsed}@0.5 or {parsed}@task")
    if schedule is not None and not applied:
        raise ValueError(
            f"'{text}': {intervention.name} acts continuously and takes no schedule; leave out @{schedule}"
        )
    return Hook(str(replace(parsed, schedule=schedule)), intervention, schedule, learner=parsed.learner)
