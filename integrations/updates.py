"""Hooks and metrics for one network in another library's training loop, whose steps are updates."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..engine.hooks.driver import HookDriver
from ..interventions import Learner
from ..metrics import measure
from ..registry import schema
from .shared import (
    Events,
    LearnerState,
    add_penalty,
    check_hooks,
    learner_state,
    parse_hooks,
    restore_learner,
    warn_unfired,
)

Recent = Callable[[], Any]  # returns the last training batch, or None before the first
Build = Callable[[nn.Module, torch.optim.Optimizer, Recent], Learner]


class UpdatesState(LearnerState):
    """The state of hooks and metrics, which is saved next to the loop's own checkpoint."""

    hooks: dict[str, Any]
    switches: int
    switching: bool


class Updates:
    """The base class of callbacks for loops whose steps are updates.

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

    def new_task(self) -> None:
        """Announce a task switch: the data are different from now on. Hooks with @task fire before the next update."""
        self._switching = True

    def begin(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, total: int, step: int = 0, saved: Any = None
    ) -> None:
        """Attach to a model before its first update, or resume at `step` with a state that `state` returned.

        Without such a state, hooks and metrics begin at `step`, and warn if they come too late.

        Args:
            model: The network.
            optimizer: Its optimizer.
            total: The planned updates.
            step: The updates so far.
            saved: A state that `state` returned, or None.

        Raises:
            ValueError: A hook does not work here or never fires.
        """
        if saved is None and step and self._is_attached_to(model, step):
            saved = self.state()  # training goes on with the same network, as in a second call of `fit`
        self.hooks = parse_hooks([hook.text for hook in self.hooks])  # without the memory of an earlier training
        for hook in self.hooks:
            if hook.intervention.has("restructure"):
                raise ValueError(
                    f"{hook.text} replaces parts of the network or its optimizer, but the training loop keeps its own "
                    f"references to them: replace them before training"
                )
        self.events.begin()
        start = step if saved is None else 0
        check_hooks(self.hooks, total, start, self.measure_every > 0, begins=saved is None)
        self.learner = self._build(model, optimizer, lambda: self._batch)
        state: UpdatesState | None = None if saved is None else schema.convert(saved, UpdatesState, "state")
        if state is not None:
            restore_learner(self.learner, state)
        self._driver = HookDriver(self.hooks, {self.learner.name: self.learner}, self.events.log, total, start)
        self._step = step
        if state is not None:
            self._driver.load_state_dict(state["hooks"])
            self._switches, self._switching = state["switches"], state["switching"]
        else:
            self._driver.after_steps(start - 1, start)
            self.learner.mark()

    def before_update(self) -> None:
        """Apply the hooks that act on the gradients, before the optimizer's step."""
        if self._driver.penalizes:
            add_penalty(self._driver, self.learner)
        self._driver.before_update(self.learner)

    def after_update(self) -> None:
        """Apply the hooks that follow every update."""
        self._driver.after_update(self.learner)

    def reach(self, step: int) -> dict[str, float]:
        """Apply the hooks that fire at `step` updates, and return a measurement if it is due, else an empty dict."""
        previous, self._step = self._step, step
        if self._switching:
            self._switches, self._switching = self._switches + 1, False
            self._driver.after_switch(step, self._switches)
        self._driver.after_steps(previous, step)
        interval = self.measure_every
        if not interval or step // interval == previous // interval:
            return {}
        numbers = {f"{self.learner.name}/{name}": v for name, v in measure(self.learner, per_layer=True).items()}
        self.learner.mark()
        self._driver.after_measurement(step, numbers)
        return {f"supple/{name}": value for name, value in numbers.items()}

    def end(self) -> None:
        """Warn about hooks that have not fired. Call it when training ends."""
        warn_unfired(self.hooks, self._step, self._switches)

    def state(self) -> UpdatesState:
        """Return the complete state of hooks and metrics."""
        return UpdatesState(
            **learner_state(self.learner), hooks=copy.deepcopy(self._driver.state_dict()),
            switches=self._switches, switching=self._switching,
        )  # fmt: skip

    def _is_attached_to(self, model: nn.Module, step: int) -> bool:
        return hasattr(self, "learner") and self.learner.module is model and self._step == step
