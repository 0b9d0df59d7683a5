"""Hooks and metrics of one network in a loop of somebody else's, which counts updates."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from ..experiments import typed
from ..experiments.hooks import HookDriver
from ..interventions import Learner
from ..metrics import measure
from .shared import Events, add_penalty, check, read

Recent = Callable[[], Any]  # returns the last batch that was trained on; None before there is one
Build = Callable[[nn.Module, torch.optim.Optimizer, Recent], Learner]


class State(TypedDict):
    """Name what is to be saved beside the loop's own checkpoint."""

    initial: dict[str, Any]
    marked: dict[str, Any] | None
    generator: Any
    hooks: dict[str, Any]
    switches: int
    switching: bool


class Updates:
    """Hold what the callbacks for loops of updates share.

    Attributes
    ----------
    learner: what hooks act on and metrics look at; from the beginning of training on. Parameters "at step 0" are those
        that the model had when training began, before any checkpoint.
    events: what was done, in order, as `events.jsonl` of a run has it.
    """

    learner: Learner

    def __init__(
        self, hooks: Sequence[str], measure_every: int, events: str | Path | None, verbose: int, learner: Build
    ) -> None:
        """Arguments as the callbacks'. Raises ValueError, in one line, for a text that is no hook."""
        if measure_every < 0:
            raise ValueError(f"measure_every must be 0 or more updates, got {measure_every}")
        self.hooks = read(hooks)
        self.measure_every = measure_every
        self.events = Events(events, verbose > 0)
        self._build = learner
        self._batch: Any = None
        self._switches, self._switching = 0, False

    def new_task(self) -> None:
        """Say that the data are others from now on: hooks with @task act before they are learned from."""
        self._switching = True

    def begin(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, total: int, step: int = 0, saved: Any = None
    ) -> None:
        """Take hold of a model before its first update, or where it goes on: at `step`, with what `state` gave there.

        Raises ValueError, in one line, for a hook that cannot work here or never acts."""
        for hook in self.hooks:
            if hook.intervention.has("restructure"):
                raise ValueError(
                    f"{hook.text}: exchanges parts of the network or its optimizer, which the loop holds on its own: "
                    f"change them before training"
                )
        self.events.begin()
        check(self.hooks, total, 0, self.measure_every > 0, begins=saved is None)
        self.learner = self._build(model, optimizer, lambda: self._batch)
        self._driver = HookDriver(self.hooks, {self.learner.name: self.learner}, self.events.log, total)
        self._step = step
        if saved is None:
            self._driver.passed(-1, 0)
            self.learner.mark()
        else:
            self._take_up(typed.fitted(saved, State, "state"))

    def before_update(self) -> None:
        """Let hooks act before the optimizer's step: on its gradients."""
        if self._driver.penalizes:
            add_penalty(self._driver, self.learner)
        self._driver.before_update(self.learner)

    def after_update(self) -> None:
        """Let hooks act that follow every update."""
        self._driver.after_update(self.learner)

    def reach(self, step: int) -> dict[str, float]:
        """Let hooks act that are due now that so many updates were made; return what was measured, if it was time."""
        previous, self._step = self._step, step
        if self._switching:
            self._switches, self._switching = self._switches + 1, False
            self._driver.switched(step, self._switches)
        self._driver.passed(previous, step)
        every = self.measure_every
        if not every or step // every == previous // every:
            return {}
        numbers = {f"{self.learner.name}/{name}": v for name, v in measure(self.learner, per_layer=True).items()}
        self.learner.mark()
        self._driver.measured(step, numbers)
        return {f"supple/{name}": value for name, value in numbers.items()}

    def state(self) -> State:
        """Return all that hooks and metrics go on from."""
        learner = self.learner
        return State(
            initial=learner.initial, marked=learner.marked, generator=learner.generator.get_state(),
            hooks=self._driver.state_dict(), switches=self._switches, switching=self._switching,
        )  # fmt: skip

    def _take_up(self, state: State) -> None:
        learner = self.learner
        device = next(learner.module.parameters()).device

        def here(values: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: value.to(device) for name, value in values.items()}

        learner.initial = here(state["initial"])
        learner.marked = None if state["marked"] is None else here(state["marked"])
        learner.generator.set_state(state["generator"].cpu())
        self._driver.load_state_dict(state["hooks"])
        self._switches, self._switching = state["switches"], state["switching"]
