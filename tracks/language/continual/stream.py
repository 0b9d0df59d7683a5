"""A stream of tasks for continual learning: a pretrained model and the data of every task."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from supple.interventions import Layer


class TaskStream(ABC):
    """A pretrained model and a sequence of tasks, which the runner (work.py) trains it on one after the other.

    Tasks are numbered from 0 in the order of learning. All random numbers are determined by the run's seed and the
    position (task, update), so checkpoints contain nothing of a stream. text.py and images/xtail.py have one stream
    each, which `text_stream(settings)` and `image_stream(settings)` return.

    model: on its device, with plain Linear layers only. The runner puts adapters into it in place. names: of the tasks.
    scores: the name of each task's score ("accuracy", "rouge_l", …). layers: the plain model's layers in forward order,
    as for `Learner`. units: names of the modules whose outputs are hidden units, in forward order. features: name of
    the module whose outputs the heads read, or None for the last of `units`. sources: descriptions of the model and of
    the data, by name. unwired: as in `Learner`; if empty, it is found by tracing the model.
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
        """Return the number of batches in one epoch over the training data of a task, ≥ 1."""

    @abstractmethod
    def loss(self, task: int, update: int) -> Tensor:
        """Return the mean training loss on the batch of a task's update (from 0), differentiable, ()."""

    @abstractmethod
    def losses(self, task: int, update: int) -> Tensor:
        """Return the training losses of the samples of that batch, differentiable, (batch,)."""

    @abstractmethod
    def inputs(self, task: int, update: int) -> Sequence[Any]:
        """Return the positional arguments of one forward pass of the model on that batch.

        Padding is left out, because metrics use all inputs: a part of the batch may be returned instead."""

    @abstractmethod
    def passes(self, task: int) -> Iterator[Sequence[Any]]:
        """Yield the positional arguments of passes over all training data of a task, each example once and whole."""

    @abstractmethod
    def score(self, task: int, examples: int | None = None) -> float:
        """Return the current score of a task on its test data, or on the first `count` examples, in [0, 1].

        The model is in evaluation mode. No generator is advanced."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model without adapters in transformers' layout, so that it can be loaded again."""
