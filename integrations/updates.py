"""Hooks and metrics for one network in another library's training loop, whose steps are updates."""

import copy
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NotRequired

import torch
from torch import nn

from supple.engine.hooks.driver import HookDriver
from supple.interventions import Learner
from supple.metrics import measure
from supple.registry import one_line, schema

from .shared import (
    Events,
    LearnerState,
    add_penalty,
    check_hooks,
    learner_state,
    parse_hooks,
    require_no_finish,
    restore_learner,
    warn_unfired,
)

Recent = Callable[[], Any]  # returns the last training batch, or None before the first
Build = Callable[[nn.Module, torch.optim.Optimizer, Recent], Learner]


class UpdatesState(LearnerState):
    """The state of hooks and metrics, which is saved next to the loop's own checkpoint."""

    before: NotRequired[int]  # the model's updates in earlier loops, each of which counts from 0
    hooks: dict[str, Any]
    switches: int
    switching: bool


class Updates:
    """The base class of callbacks for loops whose steps are updates.

    All state belongs to the model: another loop that trains the same one continues its steps, hooks and step 0.

    Attributes:
        learner: The learner that hooks and metrics receive, from the start of training on. Its parameters "at step 0"
            are those with which training began, before any checkpoint.
        events: The events in order, with the contents of a run's `events.jsonl`.
    """

    learner: Learner

    def __init__(
        self, hooks: Sequence[str], measure_every: int, events: str | Path | None, verbose: int, learner: Build
    ) -> None:
        """Create the callback.

        Args:
            hooks: Texts such as "fire@0.5". Fractions are of all planned updates.
            measure_every: Updates between measurements. 0: no measurements.
            events: A file to which each event is appended as a line of JSON.
            verbose: 1 prints a line for each event.
            learner: Builds the learner (see `Build`).

        Raises:
            ValueError: The text of a hook is invalid, or `measure_every` is negative.
        """
        if measure_every < 0:
            raise ValueError(f"measure_every must be 0 or more updates, got {measure_every}")
        self.hooks = parse_hooks(hooks)
        self.measure_every = measure_every
        self.events = Events(events, verbose > 0)
        self._build = learner
        self._batch: Any = None
        self._switches, self._switching = 0, False
        self._step = self._before = 0
        self._training = self._measured = self._warned = False

    def new_task(self) -> None:
        """Announce a task switch: the data are different from now on. Hooks with @task fire before the next update.

        Call it between two updates, or between two trainings. Before the first training, it does nothing."""
        if hasattr(self, "learner") and not self._switching:
            self._driver.finish_task()
        self._switching = True
        if self._training:
            self._switch()

    def begin(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, total: int, step: int = 0, saved: Any = None
    ) -> None:
        """Attach to a model before its first update, continue with it, or resume with a state that `state` returned.

        Without such a state and with another model, hooks and metrics begin at `step`, and warn if they come too late.

        Args:
            model: The network.
            optimizer: Its optimizer.
            total: The updates that this loop plans.
            step: The updates of this loop so far.
            saved: A state that `state` returned, or None.

        Raises:
            ValueError: A hook does not work here or never fires, or needs data of a task that ended before `state`.
        """
        if saved is None and hasattr(self, "learner") and self.learner.module is model:
            saved = {**self.state(), "before": self._step - step}
        state: UpdatesState | None = None if saved is None else schema.convert(saved, UpdatesState, "state")
        self._before = 0 if state is None else state.get("before", 0)
        step, total = step + self._before, total + self._before
        self.hooks = parse_hooks([hook.text for hook in self.hooks])  # without the memory of an earlier training
        for hook in self.hooks:
            if hook.intervention.has("restructure"):
                raise ValueError(
                    f"{hook.text} replaces parts of the network or its optimizer, but the training loop keeps its own "
                    f"references to them: replace them before training"
                )
        self.events.begin()
        start = step if state is None else 0
        check_hooks(self.hooks, total, start, self.measure_every > 0, begins=state is None)
        learner = self._build(model, optimizer, lambda: self._batch)
        if state is not None:
            if self._switching and not hasattr(self, "learner"):  # announced in a process that has not trained
                require_no_finish(self.hooks)
            restore_learner(learner, state)
        self._driver = HookDriver(self.hooks, {learner.name: learner}, self.events.log, total, start)
        self.learner, self._step = learner, step
        if state is not None:
            self._driver.load_state_dict(state["hooks"])
            self._switches, self._switching = state["switches"], state["switching"] or self._switching
        else:
            self._switches, self._switching = 0, False
            self._driver.after_steps(start - 1, start)
            self.learner.mark()
        self._training, self._measured = True, False
        if self._switching:
            self._switch()

    def before_update(self) -> None:
        """Apply the hooks that act on the gradients, before the optimizer's step."""
        if self._driver.penalizes:
            add_penalty(self._driver, self.learner)
        self._driver.before_update(self.learner)

    def after_update(self) -> None:
        """Apply the hooks that follow every update."""
        self._driver.after_update(self.learner)

    def reach(self, step: int) -> dict[str, float]:
        """Apply the hooks that fire at `step` updates, and return a measurement if it is due, else an empty dict.

        Raises ValueError at the first call if a batch cannot be measured. Later, a warning says so once."""
        previous, self._step = self._step, step + self._before
        if not self._measured and (self.measure_every or any(hook.schedule for hook in self.hooks)):
            self._measure()
        self._driver.after_steps(previous, self._step)
        interval = self.measure_every
        if not interval or self._step // interval == previous // interval:
            return {}
        numbers = self._measure()
        self.learner.mark()
        self._driver.after_measurement(self._step, numbers)
        return {f"supple/{name}": value for name, value in numbers.items()}

    def end(self) -> None:
        """Warn about hooks that have not fired. Call it when training ends."""
        self._training = False
        warn_unfired(self.hooks, self._step, self._switches)

    def state(self) -> UpdatesState:
        """Return the complete state of hooks and metrics."""
        return UpdatesState(
            **learner_state(self.learner), hooks=copy.deepcopy(self._driver.state_dict()), before=self._before,
            switches=self._switches, switching=self._switching,
        )  # fmt: skip

    def _switch(self) -> None:
        """Apply the hooks that fire at a task switch."""
        self._switches, self._switching = self._switches + 1, False
        self._driver.after_switch(self._step, self._switches)

    def _measure(self) -> dict[str, float]:
        name = self.learner.name
        try:
            numbers = measure(self.learner, per_layer=True)
        except Exception as error:  # of the network or its loss, on whatever data there are
            failed = f"'{name}' cannot be measured on this batch ({one_line(error)})"
            if not self._measured:
                raise ValueError(f"{failed}: give its inputs and its loss with SuppleCallback(learner=…)") from error
            if not self._warned:
                warnings.warn(f"{failed}, at step {self._step} and perhaps later", stacklevel=2)
            self._warned = True
            return {}
        self._measured = True
        return {f"{name}/{metric}": value for metric, value in numbers.items()}
