"""What a run trains: a `Work`, which the one loop (loop.py) takes through its tasks."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ..experiments.learner_state import learner_state, load_learner_state
from ..interventions import Learner
from .settings import TrackSettings


@dataclass(frozen=True)
class Task:
    """One stretch of a run: what is learned from update `start` until update `end`."""

    index: int
    start: int
    end: int
    name: str

    @property
    def updates(self) -> int:
        return self.end - self.start


class Work(ABC):
    """One network, what it learns task by task, and how well it does.

    Whatever is drawn is drawn from the run's seed and the place (task, update) alone: nothing but `state` has to be
    in a checkpoint, and a resumed run goes on bit for bit.

    learner: all that hooks and metrics see. Its `probe`, `loss` and `batches` are of the data at `place`.
    tasks: in their order, without gaps, from update 0.
    sources: what the data and the model are and where they come from, by name; a resumed run must find the same.
    hooks: texts of hooks that the kind of run brings itself, before those of the user.
    parts: micro-batches of an update, whose gradients are averaged.
    place: the task and the update in it (from 0) that come next or were last.
    """

    settings: TrackSettings
    learner: Learner
    tasks: tuple[Task, ...]
    sources: dict[str, str]
    hooks: tuple[str, ...] = ()
    parts: int = 1
    place: tuple[Task, int]

    @abstractmethod
    def loss(self, task: Task, update: int, part: int) -> Tensor:
        """The mean training loss of one micro-batch of an update of this task (from 0), differentiable, ()."""

    @abstractmethod
    def rate(self, task: Task, update: int) -> float:
        """The learning rate of that update, as a share of the highest."""

    @abstractmethod
    def evaluate(self, task: Task) -> dict[str, float]:
        """How well the network does now, by names of numbers, such as val_loss. Moves no generator."""

    def enter(self, task: Task) -> None:  # noqa: B027  (most have the same shape throughout)
        """Give network and optimizer the shape that they have in this task (new adapters, say). Called in the order of
        the tasks, at the start of each; and again for those that a checkpoint has behind it, before it is loaded."""

    def finish(self, task: Task) -> dict[str, Any]:
        """What else became of a task, beside the numbers of `evaluate`: fields of its line in tasks.jsonl."""
        return {}

    def state(self) -> dict[str, Any]:
        """All that must be in a checkpoint."""
        return {"learner": learner_state(self.learner)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; the network has entered the same tasks."""
        load_learner_state(self.learner, state["learner"])

    def export(self, folder: Path) -> None:  # noqa: B027  (not every kind has something to leave)
        """Leave the trained model in a folder, in a form that others can use; nothing by default."""

    def accumulating(self, part: int) -> AbstractContextManager[Any]:
        """What the loss and the gradients of a micro-batch are taken in."""
        return nullcontext()

    def improved(self, task: Task, numbers: dict[str, float], best: float) -> float | None:
        """The number that is to be small where the best state of this task is kept, if it is smaller than `best`."""
        return None

    @property
    def kept(self) -> tuple[int, ...]:
        """Updates after which the state is kept for good."""
        return ()
