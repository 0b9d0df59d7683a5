"""The driver of hooks: it asks the schedules of all hooks, applies the interventions that fire, and logs them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypedDict

import torch
from torch import Tensor

from ...interventions import Every, Hook, Learner, Memory, Moment, UnknownName, When, did_you_mean
from ...metrics import (
    METRICS,
    TRAINABILITY,
    View,
    cheap_metrics,
    feature_covariance_distance,
    measure,
    sfe,
    trainability,
)
from ...registry import calling, owner_of
from ...registry.errors import RunError
from ..storage import schema
from ..storage.alike import alike
from .calls import applied, calling_of, contract_of, numbers_of, penalty_of, state_of, text_of

LogEvent = Callable[..., None]


@dataclass(frozen=True)
class Asked:
    """The measurements of a run besides the cheap metrics."""

    costly: bool = False  # the costly metrics, such as the Hessian's largest eigenvalue
    trainability: bool = False
    learning: tuple[str, ...] = ()  # names of statistics of training, such as policy/entropy


NOTHING = Asked()


class Remembered(TypedDict):
    """The state of a hook: the memory of its schedule by learner, and the state of its intervention."""

    memory: dict[str, Memory]
    intervention: dict[str, Any]


class HookDriver:
    """The hooks of a run. Each acts on the learners that `Hook.concerns` selects.

    The loop tells the driver of three kinds of moments: `passed` (after steps), `switched` (a task begins) and
    `measured` (after a measurement).
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
        """Attach the hooks to the learners.

        Args:
            hooks: The hooks.
            learners: The learners by name, as in metrics and hooks.
            log: Called with the fields of an event.
            total: Number of steps of the run.
            start: The step at which the run begins.
            ends: Whether training ends at `total`, so that recurring hooks (`every`, `when`) do not fire there.
            asked: What the run and its events measure besides the cheap metrics.
            planned: The steps that fractions in schedules refer to; None for `total`.

        Raises:
            ValueError: A hook names no learner of the run, is refused by its intervention, or has a condition on a
                metric that does not exist.
            PluginFault: Here and in all other methods, an intervention that is not supple's raised another exception,
                returned something else than its class says, or changed what it must leave as it was.
        """
        self.hooks, self.learners, self.log = list(hooks), learners, log
        self.fresh = self.hooks  # the hooks that are not in the checkpoint that was loaded
        self.total, self.start, self.ends = total, start, ends
        self.planned = total if planned is None else planned
        self.asked = asked
        self._penalties = [hook for hook in hooks if hook.intervention.has("penalty")]
        self._draws = [hook for hook in hooks if hook.intervention.has("before_loss")]
        self._before = [hook for hook in hooks if hook.intervention.has("before_update")]
        self._after = [hook for hook in hooks if hook.intervention.has("after_update")]
        for hook in self.hooks:
            named = self._named(hook)
            for learner in [each for each in named if self._concerned(hook, each)] or named:
                self._attach(hook, learner)
            if isinstance(hook.schedule, When):
                self._check(hook, hook.schedule)

    @property
    def suspects(self) -> str:
        """The hooks of plug-ins in words: "; hook jitter of plug-in jitter.py takes part", or ""."""
        found = [(hook.text, owner_of(hook.intervention)) for hook in self.hooks]
        return "".join(f"; hook {text} of plug-in {owner} takes part" for text, owner in found if owner)

    @property
    def penalizes(self) -> bool:
        """Whether any hook adds a loss term."""
        return bool(self._penalties)

    @property
    def traceable(self) -> bool:
        """Whether torch.compile can trace all loss terms."""
        return all(hook.intervention.traceable for hook in self._penalties)

    @property
    def precedes_updates(self) -> bool:
        """Whether any hook acts between the backward pass and the optimizer step, and needs `.grad` to be set."""
        return bool(self._before)

    @property
    def follows_updates(self) -> bool:
        """Whether any hook acts before or after every optimizer step."""
        return bool(self._before or self._after)

    @property
    def interleaves(self) -> bool:
        """Whether any hook acts between one optimizer step and the next, so that they cannot be one compiled call."""
        return bool(self._draws or self.follows_updates)

    def penalty(self, learner: Learner) -> Tensor:
        """Return the sum of the hooks' loss terms for this learner, or 0 if there are none. Requires `penalizes`."""
        self.before_loss(learner)
        return self.drawn_penalty(learner)

    def before_loss(self, learner: Learner) -> None:
        """Call the hooks that act before a loss of this learner."""
        for hook in self._draws:
            if self._concerned(hook, learner):
                with calling_of(hook, "before_loss", learner):
                    hook.intervention.before_loss(learner)

    def drawn_penalty(self, learner: Learner) -> Tensor:
        """Return `penalty`, without the draws of `before_loss`, which comes first. So it can be compiled."""
        terms = [penalty_of(hook, learner) for hook in self._penalties if self._concerned(hook, learner)]
        return torch.stack(terms).sum() if terms else next(learner.module.parameters()).new_zeros(())

    def before_update(self, learner: Learner) -> None:
        """Call the hooks that act before an optimizer step of this learner. Gradients must be in `.grad`."""
        for hook in self._before:
            if self._concerned(hook, learner):
                with calling_of(hook, "before_update", learner):
                    hook.intervention.before_update(learner)

    def after_update(self, learner: Learner) -> None:
        """Call the hooks that act after an optimizer step of this learner."""
        for hook in self._after:
            if self._concerned(hook, learner):
                with calling_of(hook, "after_update", learner):
                    hook.intervention.after_update(learner)

    def numbers(self) -> dict[str, Tensor]:
        """Return the hooks' own statistics: `learner/name` → a tensor of shape () or, for a stack, (members,)."""
        return {
            f"{learner.name}/{name}": value
            for hook in self.hooks
            for learner in self.learners.values()
            if self._concerned(hook, learner)
            for name, value in numbers_of(hook, learner).items()
        }

    def finished(self, fresh: bool = False) -> None:
        """Call the hooks that act at the end of a task, while the learners' data still belong to that task.

        With `fresh`, only hooks that are not in the loaded checkpoint are called, such as an arm's own at the fork.
        """
        for hook in self.fresh if fresh else self.hooks:
            for learner in self.learners.values():
                if hook.intervention.has("finish_task") and self._concerned(hook, learner):
                    with calling_of(hook, "finish_task", learner):
                        hook.intervention.finish_task(learner)

    def passed(self, previous: int, step: int) -> None:
        """Apply the hooks that fire after the steps in (previous, step]."""
        self._ask(Moment(previous, step, self.planned, self.start))

    def switched(self, step: int, switch: int) -> None:
        """Apply the hooks that fire at the `switch`-th task switch, which is at `step`."""
        self._ask(Moment(step, step, self.planned, self.start, switch=switch))

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        """Apply the hooks that fire on new measurements, `learner/metric` → value.

        A name without a learner refers to every learner.
        """
        self._ask(Moment(step, step, self.planned, self.start, metrics=metrics))

    def _attach(self, hook: Hook, learner: Learner) -> None:
        """Attach a hook, and try what is only asked for later: a refusal belongs at the start of a run."""
        try:
            with calling_of(hook, "attach", learner, ValueError) as call:
                hook.intervention.attach(learner)
        except ValueError as error:
            reason = str(error).removeprefix(f"{hook.intervention.name}: ")
            raise ValueError(f"{hook.text}: {reason}") from error
        if call.owner:
            text_of(hook)
            contract_of(hook, learner)
            numbers_of(hook, learner)
            state_of(hook)

    def _concerned(self, hook: Hook, learner: Learner) -> bool:
        if torch.compiler.is_compiling() or not hook.intervention.has("concerns"):
            return hook.concerns(learner)
        with calling_of(hook, "concerns", learner):
            return bool(hook.concerns(learner))

    def _check(self, hook: Hook, when: When) -> None:
        """Raise ValueError for a condition on a metric that is not measured."""
        metric, known = when.metric, self._measured(hook)
        if metric in known:
            return
        name = metric.rpartition("/")[2] if metric.partition("/")[0] in self.learners else metric
        if name in TRAINABILITY:
            raise ValueError(f"{hook.text}: {name} is measured only with --trainability-every")
        if name in METRICS and METRICS[name].costly:
            raise ValueError(f"{hook.text}: {name} is measured only with --curvature")
        raise ValueError(f"{hook.text}: unknown metric {metric!r}{did_you_mean(metric, known)}")

    def _measured(self, hook: Hook) -> list[str]:
        """Return the names that a hook's condition can use.

        These are the metrics of the learners on which the hook acts (also by layer), those of any learner after the
        learner's name, and statistics of training.
        """
        bare, full = [], []
        for learner in self.learners.values():
            own = [
                *(METRICS if self.asked.costly else cheap_metrics()),
                *(f"dormant_fraction/{u}" for u in learner.units),
            ]
            own += TRAINABILITY if self.asked.trainability else ()
            full += [f"{learner.name}/{metric}" for metric in own]
            if self._concerned(hook, learner):
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
                if self._concerned(hook, learner) and hook.due(moment, learner):
                    self._apply(hook, learner, moment)

    def _apply(self, hook: Hook, learner: Learner, moment: Moment) -> None:
        was, weights = View(learner), _weights(learner)
        before = self._looked_at(was)
        started = time.perf_counter()
        written = applied(hook, learner, where := f"{hook.text} on {learner.name} at step {moment.step}")
        seconds = time.perf_counter() - started
        now, after, change = View(learner), _weights(learner), {}
        if spoiled := _not_finite(weights, after):
            owner = owner_of(hook.intervention)
            of = f" (plug-in {owner})" if owner else ""
            raise RunError(f"{where}: it wrote a number that is not finite into {spoiled}{of}")
        shapes = [{name: w.shape for name, w in state.items()} for state in (weights, after)]
        if shapes[0] == shapes[1]:  # otherwise not every new weight has an old one to compare with
            change = {"sfe": sfe(weights, after), "sfe_normalized": sfe(weights, after, normalized=True)}
            if was.has_units:
                turned = map(feature_covariance_distance, was.features, now.features)  # one per member of a stack
                change["feature_covariance_distance"] = fmean(turned)
        self.log(
            event="intervention",
            step=moment.step,
            hook=hook.text,
            intervention=text_of(hook),
            learner=learner.name,
            written=len(written),
            contract=contract_of(hook, learner),
            before=before,
            after=self._looked_at(now),
            change=change,
            seconds=round(seconds, 6),
        )

    def _looked_at(self, view: View) -> dict[str, float]:
        """Return the metrics of a learner for an event. For a stack, trainability is the mean over its members."""
        found = trainability(view) if self.asked.trainability else None
        fitted = {} if found is None else {name: float(value.mean()) for name, value in found.numbers().items()}
        return measure(view, costly=self.asked.costly) | fitted

    def state_dict(self) -> dict[str, Any]:
        return {hook.text: state_of(hook) for hook in self.hooks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of the hooks. Hooks that are not in the checkpoint, such as an arm's own, begin fresh.

        Raises ValueError if a tensor in the state differs in shape or dtype from the parameter whose name it has.
        """
        self.fresh = [hook for hook in self.hooks if hook.text not in state]
        for learner in self.learners.values():
            tensors = {**dict(learner.module.named_parameters()), **dict(learner.module.named_buffers())}
            _check_remembered(state, {learner.identity(name): tensor for name, tensor in tensors.items()}, learner.name)
        devices = {
            n: next((p.device for p in learner.module.parameters()), None) for n, learner in self.learners.items()
        }
        for hook in self.hooks:
            if hook.text in state:
                own = _placed(dict(schema.fitted(state[hook.text], Remembered, hook.text)), devices)
                with calling(hook.intervention, "hook", hook.text, "load_state_dict"):
                    hook.load_state_dict(own)


def _weights(learner: Learner) -> dict[str, Tensor]:
    """Return a copy of every parameter, by name."""
    return {name: p.detach().clone() for name, p in learner.module.named_parameters()}


def _not_finite(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> str:
    """Return the first parameter that became not finite, or "". Later, training would seem to have diverged."""
    names = (name for name in before if name in after)
    return next((n for n in names if before[n].isfinite().all() and not after[n].isfinite().all()), "")


def _placed(state: Any, devices: Mapping[str, torch.device | None], device: torch.device | None = None) -> Any:
    """Return a state with all floating-point tensors under a learner's name on that learner's device.

    Checkpoints are read to the CPU. The states of generators, which are bytes, stay there.
    """
    if isinstance(state, dict):
        return {key: _placed(value, devices, devices.get(key, device)) for key, value in state.items()}
    return state.to(device) if isinstance(state, Tensor) and state.is_floating_point() else state


def _check_remembered(state: Any, tensors: Mapping[str, Tensor], learner: str, inside: bool = False) -> None:
    """Raise ValueError if a tensor in a state, under the learner's name, is not like the learner's of that name."""
    for key, value in state.items() if isinstance(state, dict) else ():
        if inside and key in tensors and isinstance(value, Tensor):  # dicts hold other data of one parameter
            alike(value, tensors[key].detach(), f"the state of a hook for {key} of '{learner}'")
        else:
            _check_remembered(value, tensors, learner, inside or key == learner)
