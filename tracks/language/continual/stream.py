"""What a continual-learning run learns, whatever it is made of: a model and the data of every task."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ....interventions import Layer


class TaskStream(ABC):
    """A pre-trained model and a sequence of tasks, which the runner (work.py) has it learn one after the other.

    Tasks are numbered from 0 in the order in which they are learned. Whatever is drawn is drawn from the run's seed and
    the place (task, update) alone, so that nothing of a stream has to be in a checkpoint.
    text.py and images/xtail.py have one each, which `text_stream(settings)` and `image_stream(settings)` make.

    model: on its device, with all its Linear layers still plain; the runner puts adapters into it in place.
    names: of the tasks.
    scores: what each task's score is ("accuracy", "rouge_l", …).
    layers: the plain model's layers in forward order, as for `Learner`.
    units: names of the modules whose outputs are hidden units, in forward order.
    features: name of the module whose outputs the heads read, or None for the last of `units`.
    sources: what the model and the data are and where they come from, by name, in words.
    unwired: as of `Learner`; empty: it is found by tracing the model.
    """

    model: nn.Module
    names: tuple[str, ...]
    scores: tuple[str, ...]
    layers: tuple[Layer, ...]
    units: tuple[str, ...]
    features: str | None = None
    sources: Mapping[str, str] = {}
    unwired: Mapping[str, str] = {}

    @abstractmethod
    def updates_per_epoch(self, task: int) -> int:
        """Return the number of batches in one pass over the training data of a task, ≥ 1."""

    @abstractmethod
    def loss(self, task: int, update: int) -> Tensor:
        """Return the mean training loss on the batch of an update of a task (from 0), differentiable, ()."""

    @abstractmethod
    def losses(self, task: int, update: int) -> Tensor:
        """Return the training losses of that batch's samples, differentiable, (batch,)."""

    @abstractmethod
    def inputs(self, task: int, update: int) -> Sequence[Any]:
        """Return the positional arguments of one forward pass of the model on that batch, or on so much of it as needs
        no
        padding: all that passes is measured."""

    @abstractmethod
    def passes(self, task: int) -> Iterator[Sequence[Any]]:
        """Yield the positional arguments of passes over all training data of a task, each example once and whole."""

    @abstractmethod
    def score(self, task: int, examples: int | None = None) -> float:
        """Return how well the model does the task now, in [0, 1], on its test data: all, or the first so many examples.

        The model is in evaluation mode. Moves no generator."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model as it is, without adapters in it, in transformers' layout, so that it can be loaded again."""
