"""The hooks' driver: asks each hook's schedule at each moment, applies what is due, and logs what it did."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..interventions import Hook, Learner, Moment, snapshot
from ..metrics import View, feature_covariance_distance, measure, sfe
from .errors import RunError

LogEvent = Callable[..., None]


class HookDriver:
    """All hooks of a run over all its learners.

    Moments reach it in three ways: `passed` (steps went by), `switched` (a task begins), `measured`.
    """

    def __init__(
        self, hooks: Sequence[Hook], learners: Mapping[str, Learner], log: LogEvent, total: int, start: int = 0
    ) -> None:
        """total, start: the run's planned steps and the step at which it begins. log: takes an event's fields."""
        self.hooks, self.learners, self.log = list(hooks), learners, log
        self.total, self.start = total, start
        self._penalties = [h.intervention for h in hooks if h.intervention.has("penalty")]
        self._after = [h.intervention for h in hooks if h.intervention.has("after_update")]
        for hook in self.hooks:
            for learner in learners.values():
                hook.intervention.attach(learner)

    @property
    def penalizes(self) -> bool:
        """Whether any hook adds a loss term."""
        return bool(self._penalties)

    @property
    def follows_updates(self) -> bool:
        """Whether any hook acts after every optimizer step."""
        return bool(self._after)

    def penalty(self, learner: Learner) -> Tensor:
        """The sum of all loss terms; only called where `penalizes`."""
        return torch.stack([intervention.penalty(learner) for intervention in self._penalties]).sum()

    def after_update(self, learner: Learner) -> None:
        """Called after every optimizer step."""
        for intervention in self._after:
            intervention.after_update(learner)

    def passed(self, previous: int, step: int) -> None:
        """The steps in (previous, step] went by."""
        self._ask(Moment(previous, step, self.total, self.start))

    def switched(self, step: int, switch: int) -> None:
        """The `switch`-th task switch happens at `step`."""
        self._ask(Moment(step, step, self.total, self.start, switch=switch))

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """New measurements; names may come with or without their learner's prefix."""
        bare = {name.split("/", 1)[1]: value for name, value in metrics.items() if "/" in name}
        self._ask(Moment(step, step, self.total, self.start, metrics=bare | dict(metrics)))

    def _ask(self, moment: Moment) -> None:
        for hook in self.hooks:
            if hook.schedule is not None and hook.schedule.due(moment, hook.memory):
                for learner in self.learners.values():
                    self._apply(hook, learner, moment)

    def _apply(self, hook: Hook, learner: Learner, moment: Moment) -> None:
        was, weights, architecture = View(learner), snapshot(learner.module), len(learner.changes)
        before = measure(was)
        started = time.perf_counter()
        try:
            written = hook.intervention.apply(learner)
        except ValueError as error:  # a layer that died or diverged, say: nothing was written
            raise RunError(f"{hook.text} on {learner.name} at step {moment.step}: {error}") from error
        seconds = time.perf_counter() - started
        now, change = View(learner), {}
        if len(learner.changes) == architecture:  # else there is no old weight for each new one
            after = snapshot(learner.module)
            change = {"sfe": sfe(weights, after), "sfe_normalized": sfe(weights, after, normalized=True)}
            if was.has_units:
                features = was.recording.features, now.recording.features
                change["feature_covariance_distance"] = feature_covariance_distance(*features)
        self.log(
            event="intervention",
            step=moment.step,
            hook=hook.text,
            intervention=str(hook.intervention),
            learner=learner.name,
            written=len(written),
            contract=hook.intervention.contract(learner),
            before=before,
            after=measure(now),
            change=change,
            seconds=round(seconds, 6),
        )

    def state_dict(self) -> dict[str, Any]:
        return {hook.text: hook.state_dict() for hook in self.hooks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Hooks that the checkpoint does not know (a fork's own) begin fresh."""
        for hook in self.hooks:
            if hook.text in state:
                hook.load_state_dict(state[hook.text])
