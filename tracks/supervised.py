"""The base of supervised kinds: one network, its loss, and updates made of micro-batches."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from math import isfinite
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


class MeanLoss:
    """The running mean of losses. Adding a loss does not wait for the GPU."""

    def __init__(self) -> None:
        self.sum: Tensor | None = None  # () float64
        self.count = 0

    def add(self, loss: Tensor) -> None:
        self.sum = loss if self.sum is None else self.sum.add_(loss)
        self.count += 1

    def take(self) -> float | None:
        """Return the mean of the losses since the last call, or None without losses, and reset it."""
        mean = None if self.sum is None else float(self.sum) / self.count
        self.sum, self.count = None, 0
        return mean

    @property
    def sound(self) -> bool:
        return self.sum is None or isfinite(float(self.sum))


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
        self.mean_loss = MeanLoss()  # those of training since the last evaluation, penalties left out

    @property
    def learners(self) -> dict[str, Learner]:
        return {self.learner.name: self.learner}

    @abstractmethod
    def loss(self, task: Task, update: int, part: int) -> Tensor:
        """Return the mean training loss of one micro-batch of a task's update (from 0), differentiable, ()."""

    @abstractmethod
    def rate(self, task: Task, update: int) -> float:
        """Return the learning rate of this update, as a share of the highest."""

    @abstractmethod
    def examine(self, task: Task) -> Numbers:
        """Return the results of an evaluation by name, such as val_loss."""

    def accumulating(self, part: int) -> AbstractContextManager[Any]:
        """Return the context in which the loss and the gradients of a micro-batch are computed."""
        return nullcontext()

    # -- what the loop asks for -----------------------------------------------------------------------------------

    def enter(self, task: Task) -> None:
        self.mean_loss = MeanLoss()

    def look_at(self, task: Task, step: int) -> None:
        self.place = task, max(0, min(step, task.end) - task.start - 1)

    def advance(self, task: Task, step: int, until: int, hooks: HookDriver, run: RunDirectory) -> int:
        """Make one optimizer step."""
        optimizer, update = self.learner.optimizer, step - task.start
        assert optimizer is not None
        self.place = task, update
        optimizer.zero_grad(set_to_none=True)
        total: Tensor | None = None
        for part in range(self.parts):
            with self.products, self.accumulating(part):
                loss = self.loss(task, update, part) / self.parts
                loss.backward()
            total = loss.detach().double() if total is None else total + loss.detach()
        assert total is not None
        if hooks.penalizes and (penalty := hooks.penalty(self.learner)).requires_grad:
            penalty.backward()
        if self.settings.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.learner.module.parameters(), self.settings.clip)
        for group in optimizer.param_groups:
            group["lr"] = self.rate(task, update) * group.setdefault("initial_lr", group["lr"])
        if hooks.precedes_updates:
            hooks.before_update(self.learner)
        optimizer.step()
        if hooks.follows_updates:
            hooks.after_update(self.learner)
        self.mean_loss.add(average([total])[0])
        return 1

    def check(self, closely: bool = False) -> None:
        parameters = [p.detach() for p in self.learner.module.parameters() if p.requires_grad]
        sound = [torch.isfinite(p).all() for p in parameters]
        if not self.mean_loss.sound or (sound and not bool(torch.stack(sound).all())):
            raise Diverged("the loss or a weight is not finite")

    def evaluate(self, task: Task) -> Numbers:
        """Return the numbers of `examine`, and as train_loss the mean of the losses since the last evaluation."""
        numbers, mean = self.examine(task), self.mean_loss.take()
        return numbers if mean is None else {**numbers, "train_loss": mean}

    def finish(self, task: Task, numbers: Numbers) -> Numbers:
        return {name: value for name, value in numbers.items() if name != "train_loss"}

    def state(self) -> dict[str, Any]:
        return {"learner": learner_state(self.learner), "losses": dict(vars(self.mean_loss))}

    def load_state(self, state: dict[str, Any]) -> None:
        load_learner_state(self.learner, state["learner"])
        total, self.mean_loss.count = state["losses"]["sum"], state["losses"]["count"]
        if total is not None:
            self.mean_loss.sum = total.to(next(self.learner.module.parameters()).device)
