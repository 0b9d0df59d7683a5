"""The driver of hooks: it asks the schedules of all hooks, applies the interventions that fire, and logs them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from supple.engine.storage.restoring import require_like
from supple.interventions import Hook, Learner, Moment, UnknownName, When
from supple.interventions.schedule import AtUpdate
from supple.metrics import METRICS, TRAINABILITY, Measured, cheap_metrics
from supple.networks.ranks import average, begin_alike, world
from supple.registry import describe_unknown, did_you_mean

from .event import NO_EXTRAS, ExtraMeasurements, Recorder
from .moments import calling

LogEvent = Callable[..., None]
MOMENTS = ("penalty", "before_loss", "before_update", "after_update")  # methods of interventions, at every update


class HookDriver:
    """The hooks of a run. Each acts on the learners that `Hook.concerns` selects.

    The loop tells the driver of three kinds of moments: `after_steps`, `after_switch` (a task begins) and
    `after_measurement`.

    In a stack of seeds, a condition holds for each seed on its own, and the hook then acts on these seeds alone. What
    acts at every update, or at a step or switch, acts on all of them.

    Attributes:
        frozen: Positions of seeds that have ended (diverged), on which no hook fires.
        penalizes: Whether any hook adds a loss term.
        traceable: Whether torch.compile can trace all loss terms.
        precedes_updates: Whether any hook acts between the backward pass and the optimizer step, and needs `.grad` to
            be set.
        follows_updates: Whether any hook acts before or after every optimizer step.
        interleaves: Whether any hook acts between one optimizer step and the next, so that they cannot be one compiled
            call.
        counts_updates: Whether a schedule counts updates, which `after_steps` needs then.
    """

    def __init__(
        self,
        hooks: Sequence[Hook],
        learners: Mapping[str, Learner],
        log: LogEvent,
        total: int,
        start: int = 0,
        ends: bool = False,
        extras: ExtraMeasurements = NO_EXTRAS,
        planned: int | None = None,
        seeds: Sequence[int] = (),
    ) -> None:
        """Attach the hooks to the learners.

        Args:
            hooks: The hooks.
            learners: The learners by name, as in metrics and hooks.
            log: Called with the fields of an event.
            total: Number of steps of the run.
            start: The step at which the run begins.
            ends: Whether training ends at `total`, so that hooks that recur (`every`, `when`) do not fire there.
            extras: What the run and its events measure besides the cheap metrics.
            planned: The steps that fractions in schedules refer to; None for `total`.
            seeds: The seeds of a stack, for events; by default their positions.

        Raises:
            ValueError: A hook names no learner of the run, is refused by its intervention, has a condition on a metric
                that does not exist, or one on a stack of seeds although it changes the structure of networks.
        """
        self.hooks, self.learners, self.log = list(hooks), learners, log
        self.fresh = self.hooks  # the hooks that are not in the checkpoint that was loaded
        self.total, self.start, self.ends = total, start, ends
        self.planned = total if planned is None else planned
        self.extras = extras
        self.counts_updates = any(isinstance(hook.schedule, AtUpdate) for hook in hooks)
        stack = max((learner.seeds for learner in learners.values()), default=0)
        self.seeds = tuple(seeds or range(stack)) if stack else ()
        self.frozen: set[int] = set()
        self._check_seeds: Callable[[], object] = lambda: None
        self._recorder = Recorder(extras, self.seeds)
        self._at = {moment: [hook for hook in hooks if hook.intervention.has(moment)] for moment in MOMENTS}
        self.penalizes, self.precedes_updates = bool(self._at["penalty"]), bool(self._at["before_update"])
        self.follows_updates = self.precedes_updates or bool(self._at["after_update"])
        self.interleaves = self.follows_updates or bool(self._at["before_loss"])
        for learner in learners.values() if hooks else ():
            begin_alike(learner)
        for hook in self.hooks:
            self._attach(hook)
            if isinstance(hook.schedule, When):
                self._check_condition(hook, hook.schedule)
        self.traceable = all(hook.intervention.traceable for hook in self._at["penalty"])

    def begin(self, log: LogEvent, check_seeds: Callable[[], object]) -> None:
        """Begin training: events go to `log`, and `check_seeds` is called before a hook acts on a stack of seeds.

        It puts the positions of those that have diverged into `frozen`."""
        self.log, self._check_seeds = log, check_seeds

    def penalty(self, learner: Learner) -> Tensor:
        """Return the sum of the hooks' loss terms for this learner, or 0 if there are none. Requires `penalizes`."""
        self.before_loss(learner)
        return self.drawn_penalty(learner)

    def before_loss(self, learner: Learner) -> None:
        """Call the hooks that act before a loss of this learner."""
        self._call(self._at["before_loss"], "before_loss", learner)

    def drawn_penalty(self, learner: Learner) -> Tensor:
        """Return `penalty`, without the draws of `before_loss`, which comes first. So it can be compiled."""
        terms = []
        for hook in self._at["penalty"]:
            if hook.concerns(learner):
                with calling(hook, "penalty", learner):
                    terms.append(hook.intervention.penalty(learner))
        return torch.stack(terms).sum() if terms else next(learner.module.parameters()).new_zeros(())

    def before_update(self, learner: Learner) -> None:
        """Call the hooks that act before an optimizer step of this learner. Gradients must be in `.grad`."""
        self._call(self._at["before_update"], "before_update", learner)

    def after_update(self, learner: Learner) -> None:
        """Call the hooks that act after an optimizer step of this learner."""
        self._call(self._at["after_update"], "after_update", learner)

    def numbers(self) -> Measured:
        """Return the hooks' own statistics, `learner/name` → number, for the run or for each seed of a stack.

        That of several networks of one seed is their mean.
        """
        lines: Measured = [{} for _ in self.seeds or (0,)]
        for hook in self.hooks:
            for learner in self.learners.values():
                with calling(hook, "numbers", learner):
                    numbers = hook.intervention.numbers(learner) if hook.concerns(learner) else {}
                for name, value in numbers.items():
                    value = value.detach().double()
                    if not learner.seeds:
                        value = value.mean()
                    elif value.ndim and len(value) == learner.members:
                        value = learner.by_seed(value).mean(1)
                    for line, number in zip(lines, value.expand(len(lines)).tolist(), strict=True):
                        line[f"{learner.name}/{name}"] = number
        return lines

    def finish_task(self, fresh: bool = False) -> None:
        """Call the hooks that act at the end of a task, while the learners' data still belong to that task.

        With `fresh`, only hooks that are not in the loaded checkpoint are called, such as an arm's own at the fork.
        """
        for hook in self.fresh if fresh else self.hooks:
            if hook.intervention.has("finish_task"):
                for learner in self.learners.values():
                    self._call([hook], "finish_task", learner)

    def after_steps(self, previous: int, step: int, updates: tuple[int, int] | None = None) -> None:
        """Apply the hooks that fire after the steps in (previous, step].

        updates: The optimizer steps since step 0 of the run, at `previous` and at `step`. None: steps are updates."""
        self._fire_due(Moment(previous, step, self.planned, self.start, updates=updates))

    def after_switch(self, step: int, switch: int) -> None:
        """Apply the hooks that fire at the `switch`-th task switch, which is at `step`."""
        self._fire_due(Moment(step, step, self.planned, self.start, switch=switch))

    def after_measurement(self, step: int, *metrics: Mapping[str, float]) -> None:
        """Apply the hooks that fire on new measurements, `learner/metric` → value.

        A name without a learner refers to every learner. For a stack of seeds, there are those of each seed, in turn.
        In several processes, conditions see the means over these.
        """
        if world() > 1 and any(isinstance(hook.schedule, When) for hook in self.hooks):
            device = next(p.device for learner in self.learners.values() for p in learner.module.parameters())
            means = average([torch.tensor([*of.values()], dtype=torch.float64, device=device) for of in metrics])
            metrics = tuple(dict(zip(of, mean.tolist(), strict=True)) for of, mean in zip(metrics, means, strict=True))
        self._fire_due(*(Moment(step, step, self.planned, self.start, metrics=own) for own in metrics))

    def _call(self, hooks: Sequence[Hook], moment: str, learner: Learner) -> None:
        """Call a method of the interventions of those of these hooks that act on this learner."""
        for hook in hooks:
            if hook.concerns(learner):
                with calling(hook, moment, learner):
                    getattr(hook.intervention, moment)(learner)

    def _attach(self, hook: Hook) -> None:
        """Attach a hook to the learners that it names, or to those of all on which it acts."""
        names = [learner.name for learner in self.learners.values()]
        if hook.learner not in (None, *names):
            raise UnknownName(f"{hook.text}: {describe_unknown('learner', str(hook.learner), names)}")
        named = [learner for learner in self.learners.values() if hook.learner in (None, learner.name)]
        for learner in [learner for learner in named if hook.concerns(learner)] or named:
            try:
                with calling(hook, "attach", learner):
                    hook.intervention.attach(learner)
            except ValueError as error:
                reason = str(error).removeprefix(f"{hook.intervention.name}: ")
                raise ValueError(f"{hook.text}: {reason}") from error

    def _check_condition(self, hook: Hook, when: When) -> None:
        """Raise ValueError for a condition on a metric that is not measured, or that cannot hold for some seeds."""
        together = hook.intervention.together
        if hook.intervention.has("restructure"):
            together = "changes the structure of the networks, which the seeds of a stack share"
        if self.seeds and together:
            raise ValueError(
                f"{hook.text}: {hook.intervention.name} {together}, so it cannot wait for a condition of each: train "
                f"one seed at a time, or give a step"
            )
        metric, known = when.metric, self._measured_names(hook)
        if metric in known:
            return
        name = metric.rpartition("/")[2] if metric.partition("/")[0] in self.learners else metric
        if name in TRAINABILITY:
            raise ValueError(f"{hook.text}: {name} is measured only with --trainability-every")
        if name in METRICS and METRICS[name].costly:
            raise ValueError(f"{hook.text}: {name} is measured only with --curvature")
        raise ValueError(f"{hook.text}: unknown metric {metric!r}{did_you_mean(metric, known)}")

    def _measured_names(self, hook: Hook) -> list[str]:
        """Return the names that a hook's condition can use.

        These are the metrics of the learners on which the hook acts (also by layer), those of any learner after the
        learner's name, and statistics of training.
        """
        bare, full = [], []
        for learner in self.learners.values():
            names = [
                *(METRICS if self.extras.costly else cheap_metrics()),
                *(f"dormant_fraction/{u}" for u in learner.units),
            ]
            names += TRAINABILITY if self.extras.trainability else ()
            full += [f"{learner.name}/{metric}" for metric in names]
            if hook.concerns(learner):
                bare += names
        return [*bare, *full, *self.extras.learning]

    def _fire_due(self, *moments: Moment) -> None:
        """Apply the hooks that are due: at a moment of the run, or at one of each seed of a stack."""
        over = self.ends and moments[0].step >= self.total
        for hook in self.hooks:
            if over and hook.schedule and hook.schedule.recurs:
                continue
            for learner in self.learners.values():
                if not hook.concerns(learner):
                    continue
                if not learner.seeds:
                    if hook.due(moments[0], learner):
                        self.log(**self._recorder.apply(hook, learner, moments[0].step))
                elif seeds := self._seeds_due(hook, learner, moments):
                    self._check_seeds()
                    if seeds := [seed for seed in seeds if seed not in self.frozen]:
                        self.log(**self._recorder.apply(hook, learner, moments[0].step, seeds))

    def _seeds_due(self, hook: Hook, learner: Learner, moments: Sequence[Moment]) -> list[int]:
        """Return the positions of the seeds for which a hook fires."""
        each = moments if len(moments) > 1 else [moments[0]] * learner.seeds
        living = [seed for seed in range(learner.seeds) if seed not in self.frozen]
        return [seed for seed in living if hook.due(each[seed], learner, seed)]

    def state_dict(self) -> dict[str, Any]:
        return {hook.text: hook.state_dict() for hook in self.hooks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of the hooks. Hooks that are not in the checkpoint, such as an arm's own, begin fresh.

        Raises ValueError if a tensor in the state differs in shape or dtype from the parameter whose name it has.
        """
        self.fresh = [hook for hook in self.hooks if hook.text not in state]
        places: dict[str, dict[str, Tensor]] = {}
        for name, learner in self.learners.items():
            tensors = (*learner.module.named_parameters(), *learner.module.named_buffers())
            places[name] = {learner.identity(n): tensor.detach() for n, tensor in tensors}
        for hook in self.hooks:
            if hook.text in state:
                hook.load_state_dict(_placed(state[hook.text], places))


def _placed(state: Any, places: Mapping[str, Mapping[str, Tensor]], learner: str = "", name: str = "") -> Any:
    """Return a state with all floating-point tensors under a learner's name on that learner's device.

    Checkpoints are read to the CPU. The states of generators, which are bytes, stay there. A tensor with the name of a
    parameter or a buffer of the learner has to be like it. `places` are these, by learner.
    """
    if isinstance(state, dict):
        return {key: _placed(value, places, key if key in places else learner, key) for key, value in state.items()}
    if not learner or not isinstance(state, Tensor):
        return state
    own = places[learner]
    if name in own:
        require_like(state, own[name], f"the state of a hook for {name} of '{learner}'")
    return state.to(next(iter(own.values()), state).device) if state.is_floating_point() else state
