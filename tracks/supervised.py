"""The base of supervised kinds: one network, its loss, and updates made of micro-batches."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from supple.engine.hooks.driver import HookDriver
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.engine.storage.run_directory import RunDirectory
from supple.engine.work import Numbers, Task, Work
from supple.interventions import Learner
from supple.networks.ranks import average
from supple.registry.errors import Diverged

from .settings import TrackSettings

NO_LOSSES: dict[str, Any] = {"sum": None, "count": 0}  # sum: () float64


class SupervisedWork(Work[Task]):
    """One network that learns task by task, and its evaluations. A step is an update of the optimizer.

    All random numbers are determined by the run's seed and the position (task, update). So checkpoints contain only
    `state`, and a resumed run continues bit for bit.

    learner: what hooks and metrics use. Its `probe`, `loss` and `batches` refer to the data at `place`. parts: number
    of micro-batches of an update, whose gradients are averaged. place: the task and the update in it (from 0) that come
    next or were last.
    """

    settings: TrackSettings
    learner: Learner
    parts: int = 1

    def __init__(self, settings: TrackSettings, tasks: Sequence[Task]) -> None:
        self.settings, self.tasks = settings, tuple(tasks)
        self.place = self.tasks[0], 0
        self.train_losses = NO_LOSSES  # those of training since the last evaluation, penalties left out

    @property
    def learners(self) -> dict[str, Learner]:
        return {self.learner.name: self.learner}

    @abstractmethod
    def loss(self, task: Task, update: int, part: int) -> Tensor:
        """Return the mean training loss of one micro-batch of a task's update (from 0), differentiable, ()."""

    def rate(self, task: Task, update: int) -> float:
        """Return the learning rate of this update, as a share of the highest."""
        return 1.0

    @abstractmethod
    def examine(self, task: Task) -> Numbers:
        """Return the results of an evaluation by name, such as val_loss."""

    def accumulating(self, part: int) -> AbstractContextManager[Any]:
        """Return the context in which the loss and the gradients of a micro-batch are computed."""
        return nullcontext()

    # -- what the loop asks for -----------------------------------------------------------------------------------

    def enter(self, task: Task) -> None:
        self.train_losses = NO_LOSSES

    def look_at(self, task: Task, step: int) -> None:
        self.place = task, max(0, min(step, task.end) - task.start - 1)

    def advance(self, task: Task, step: int, until: int, hooks: HookDriver, run: RunDirectory) -> int:
        """Make one optimizer step."""
        optimizer: Any = self.learner.optimizer
        update, total = step - task.start, torch.zeros((), dtype=torch.float64)
        self.place = task, update
        optimizer.zero_grad(set_to_none=True)
        for part in range(self.parts):
            with self.products, self.accumulating(part):
                loss = self.loss(task, update, part) / self.parts
                loss.backward()
            total = total.to(loss.device) + loss.detach()
        if hooks.penalizes and (penalty := hooks.penalty(self.learner)).requires_grad:
            penalty.backward()
        if self.settings.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.learner.module.parameters(), self.settings.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = self.rate(task, update) * group.setdefault("initial_lr", group["lr"])
        hooks.before_update(self.learner)
        optimizer.step()
        hooks.after_update(self.learner)
        (total,), before = average([total]), self.train_losses["sum"]  # nothing here waits for the GPU
        summed = total if before is None else before.to(total.device).add_(total)
        self.train_losses = {"sum": summed, "count": self.train_losses["count"] + 1}
        return 1

    def check(self, closely: bool = False) -> None:
        values = [p.detach() for p in self.learner.module.parameters() if p.requires_grad]
        if self.train_losses["count"]:
            values.append(self.train_losses["sum"])
        sound = [torch.isfinite(value).all().to(values[0].device) for value in values]
        if sound and not bool(torch.stack(sound).all()):  # one look, since each waits for a GPU
            raise Diverged("the loss or a weight is not finite")

    def evaluate(self, task: Task) -> Numbers:
        """Return the numbers of `examine`, and as train_loss the mean of the losses since the last evaluation."""
        numbers, total, count = self.examine(task), self.train_losses["sum"], self.train_losses["count"]
        self.train_losses = NO_LOSSES
        return {**numbers, "train_loss": float(total) / count} if count else numbers

    def finish(self, task: Task, numbers: Numbers) -> Numbers:
        return {name: value for name, value in numbers.items() if name != "train_loss"}

    def state(self) -> dict[str, Any]:
        return {"learner": learner_state(self.learner), "losses": self.train_losses}

    def load_state(self, state: dict[str, Any]) -> None:
        load_learner_state(self.learner, state["learner"])
        self.train_losses = state["losses"]
