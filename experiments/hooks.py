"""The hooks' driver: asks each hook's schedule at each moment, applies what is due, and logs what it did."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypedDict

import torch
from torch import Tensor

from ..interventions import Every, Hook, Learner, Memory, Moment, UnknownName, When, did_you_mean, snapshot
from ..metrics import (
    CHEAP_METRICS,
    METRICS,
    TRAINABILITY,
    View,
    feature_covariance_distance,
    measure,
    sfe,
    trainability,
)
from . import typed
from .alike import alike
from .errors import RunError

LogEvent = Callable[..., None]


@dataclass(frozen=True)
class Asked:
    """Say what a run measures besides the cheap metrics.

    costly: what is costly too, such as the Hessian's largest eigenvalue. trainability: whether it is. learning: names
    of what is said of learning itself, such as policy/entropy.
    """

    costly: bool = False
    trainability: bool = False
    learning: tuple[str, ...] = ()


NOTHING = Asked()


class Remembered(TypedDict):
    """The state of a hook: its schedule's memory, by learner, and what its intervention saved."""

    memory: dict[str, Memory]
    intervention: dict[str, Any]


class HookDriver:
    """The hooks of a run over all its learners; each acts on those that `Hook.concerns` names.

    Moments reach it in three ways: `passed` (steps went by), `switched` (a task begins), `measured`.
    """

    def __init__(
        self,
        hooks: Sequence[Hook],
        learners: Mapping[str, Learner],
        log: LogEvent,
        total: int,
        start: int = 0,
        ends: bool = False,
        asked: Asked = NOTHING,
        planned: int | None = None,
    ) -> None:
        """total, start: the run's steps and the step at which it begins. log: takes an event's fields.
        planned: the steps that fractions in schedules are of, where that is not `total`.
        asked: what the run, and so events, measure besides the cheap metrics.
        ends: nothing is learned after `total`, so what recurs (`every`, `when`) is not due there any more.

        learners: by their own names, as in metrics and hooks. Raises ValueError for a hook that names none of
        them, for one that an intervention refuses, and for a condition on a metric that there is not."""
        self.hooks, self.learners, self.log = list(hooks), learners, log
        self.fresh = self.hooks  # those of which a checkpoint that was loaded knew nothing
        self.total, self.start, self.ends = total, start, ends
        self.planned = total if planned is None else planned
        self.asked = asked
        self._penalties = [hook for hook in hooks if hook.intervention.has("penalty")]
        self._before = [hook for hook in hooks if hook.intervention.has("before_update")]
        self._after = [hook for hook in hooks if hook.intervention.has("after_update")]
        for hook in self.hooks:
            named = self._named(hook)
            for learner in [each for each in named if hook.concerns(each)] or named:
                try:
                    hook.intervention.attach(learner)
                except ValueError as error:
                    reason = str(error).removeprefix(f"{hook.intervention.name}: ")
                    raise ValueError(f"{hook.text}: {reason}") from error
            if isinstance(hook.schedule, When):
                self._check(hook, hook.schedule)

    @property
    def penalizes(self) -> bool:
        """Whether any hook adds a loss term."""
        return bool(self._penalties)

    @property
    def precedes_updates(self) -> bool:
        """Whether any hook acts between the gradients and the optimizer step, and needs `.grad` to be set."""
        return bool(self._before)

    @property
    def follows_updates(self) -> bool:
        """Whether any hook acts before or after every optimizer step."""
        return bool(self._before or self._after)

    def penalty(self, learner: Learner) -> Tensor:
        """Return the sum of all loss terms of this learner, 0 where no hook has one for it;
        only called where `penalizes`."""
        terms = [hook.intervention.penalty(learner) for hook in self._penalties if hook.concerns(learner)]
        return torch.stack(terms).sum() if terms else next(learner.module.parameters()).new_zeros(())

    def before_update(self, learner: Learner) -> None:
        """Let hooks act before an optimizer step of this learner, with the gradients in `.grad`."""
        for hook in self._before:
            if hook.concerns(learner):
                hook.intervention.before_update(learner)

    def after_update(self, learner: Learner) -> None:
        """Let hooks act after an optimizer step of this learner."""
        for hook in self._after:
            if hook.concerns(learner):
                hook.intervention.after_update(learner)

    def numbers(self) -> dict[str, Tensor]:
        """Return what the hooks count of their own doing, `learner/name` → a number,
        or one for each member, (members,)."""
        return {
            f"{learner.name}/{name}": value
            for hook in self.hooks
            for learner in self.learners.values()
            if hook.concerns(learner)
            for name, value in hook.intervention.numbers(learner).items()
        }

    def finished(self, fresh: bool = False) -> None:
        """Let hooks act at a task's end, where the learners' data are still its own. fresh: only those that no
        checkpoint knows, as a fork's own where it begins."""
        for hook in self.fresh if fresh else self.hooks:
            for learner in self.learners.values():
                if hook.intervention.has("finish_task") and hook.concerns(learner):
                    hook.intervention.finish_task(learner)

    def passed(self, previous: int, step: int) -> None:
        """Apply what is due now that the steps in (previous, step] went by."""
        self._ask(Moment(previous, step, self.planned, self.start))

    def switched(self, step: int, switch: int) -> None:
        """Apply what is due at the `switch`-th task switch, which happens at `step`."""
        self._ask(Moment(step, step, self.planned, self.start, switch=switch))

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """Apply what is due on new measurements, named `learner/metric`;
        one without a learner's name is every learner's."""
        self._ask(Moment(step, step, self.planned, self.start, metrics=metrics))

    def _check(self, hook: Hook, when: When) -> None:
        """Raise ValueError for a condition on what is not measured."""
        metric, known = when.metric, self._measured(hook)
        if metric in known:
            return
        name = metric.rpartition("/")[2] if metric.partition("/")[0] in self.learners else metric
        if name in TRAINABILITY:
            raise ValueError(f"{hook.text}: {name} is measured only where it is asked for (--trainability-every)")
        if name in METRICS and METRICS[name].costly:
            raise ValueError(f"{hook.text}: {name} is measured only where it is asked for (--curvature)")
        raise ValueError(f"{hook.text}: unknown metric {metric!r}{did_you_mean(metric, known)}")

    def _measured(self, hook: Hook) -> list[str]:
        """The names that a hook's condition can ask for: metrics of the learners that it acts on, also by layer where
        they are; those of any learner, with its name in front; and what is said of learning itself."""
        bare, full = [], []
        for learner in self.learners.values():
            own = [
                *(METRICS if self.asked.costly else CHEAP_METRICS),
                *(f"dormant_fraction/{u}" for u in learner.units),
            ]
            own += TRAINABILITY if self.asked.trainability else ()
            full += [f"{learner.name}/{metric}" for metric in own]
            if hook.concerns(learner):
                bare += own
        return [*bare, *full, *self.asked.learning]

    def _named(self, hook: Hook) -> list[Learner]:
        names = [learner.name for learner in self.learners.values()]
        if hook.learner not in (None, *names):
            hint = did_you_mean(str(hook.learner), names)
            raise UnknownName(f"{hook.text}: unknown learner {hook.learner!r}{hint} (known: {', '.join(names)})")
        return [learner for learner in self.learners.values() if hook.learner in (None, learner.name)]

    def _ask(self, moment: Moment) -> None:
        over = self.ends and moment.step >= self.total
        for hook in self.hooks:
            if over and isinstance(hook.schedule, Every | When):
                continue
            for learner in self.learners.values():
                if hook.concerns(learner) and hook.due(moment, learner):
                    self._apply(hook, learner, moment)

    def _apply(self, hook: Hook, learner: Learner, moment: Moment) -> None:
        was, weights = View(learner), snapshot(learner.module)
        before = self._looked_at(was)
        started = time.perf_counter()
        try:
            written = hook.intervention.apply(learner)
        except ValueError as error:  # a layer that died or diverged, say: nothing was written
            raise RunError(f"{hook.text} on {learner.name} at step {moment.step}: {error}") from error
        seconds = time.perf_counter() - started
        now, after, change = View(learner), snapshot(learner.module), {}
        shapes = [{name: w.shape for name, w in state.items()} for state in (weights, after)]
        if shapes[0] == shapes[1]:  # else there is no old weight for each new one
            change = {"sfe": sfe(weights, after), "sfe_normalized": sfe(weights, after, normalized=True)}
            if was.has_units:
                turned = map(feature_covariance_distance, was.features, now.features)  # of each member of a stack
                change["feature_covariance_distance"] = fmean(turned)
        self.log(
            event="intervention",
            step=moment.step,
            hook=hook.text,
            intervention=str(hook.intervention),
            learner=learner.name,
            written=len(written),
            contract=hook.intervention.contract(learner),
            before=before,
            after=self._looked_at(now),
            change=change,
            seconds=round(seconds, 6),
        )

    def _looked_at(self, view: View) -> dict[str, float]:
        """Return what an event says of a learner; of a stack the members' means, as a whole."""
        found = trainability(view) if self.asked.trainability else None
        fitted = {} if found is None else {name: float(value.mean()) for name, value in found.numbers().items()}
        return measure(view, costly=self.asked.costly) | fitted

    def state_dict(self) -> dict[str, Any]:
        return {hook.text: hook.state_dict() for hook in self.hooks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the hooks' state; those that the checkpoint does not know (a fork's own) begin fresh.

        Raises ValueError for what is remembered of a parameter, by its name, in another shape or type."""
        self.fresh = [hook for hook in self.hooks if hook.text not in state]
        for learner in self.learners.values():
            tensors = {**dict(learner.module.named_parameters()), **dict(learner.module.named_buffers())}
            _check_remembered(state, {learner.identity(name): tensor for name, tensor in tensors.items()}, learner.name)
        devices = {
            n: next((p.device for p in learner.module.parameters()), None) for n, learner in self.learners.items()
        }
        for hook in self.hooks:
            if hook.text in state:
                hook.load_state_dict(_placed(dict(typed.fitted(state[hook.text], Remembered, hook.text)), devices))


def _placed(state: Any, devices: Mapping[str, torch.device | None], device: torch.device | None = None) -> Any:
    """Return a state whose numbers below an entry named as a learner is are on that learner's device: checkpoints are
    read to the CPU. States of generators, which are bytes, stay there."""
    if isinstance(state, dict):
        return {key: _placed(value, devices, devices.get(key, device)) for key, value in state.items()}
    return state.to(device) if isinstance(state, Tensor) and state.is_floating_point() else state


def _check_remembered(state: Any, tensors: Mapping[str, Tensor], learner: str, inside: bool = False) -> None:
    """Raise ValueError where an entry of a state, below one named as the learner is, has the name of one of its tensors
    and is not like it."""
    for key, value in state.items() if isinstance(state, dict) else ():
        if inside and key in tensors and isinstance(value, Tensor):  # others are of one parameter: its steps, say
            alike(value, tensors[key].detach(), f"what a hook remembers of {key} of '{learner}'")
        else:
            _check_remembered(value, tensors, learner, inside or key == learner)
