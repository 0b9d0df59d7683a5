"""Tasks of text for a causal language model, trained on the likelihood of the answers to questions."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from supple.engine.seeding import generator
from supple.networks.causal import causal_features, causal_layers, causal_units
from supple.tracks.language.answers import mean_nll, task_score, token_nll
from supple.tracks.language.chat import Encoded, encode, shortest_ids
from supple.tracks.language.examples import TaskData, load_task
from supple.tracks.language.models import (
    LanguageModel,
    check_context,
    load_model,
    save_model,
)

from .settings import ContinualSettings

# Short questions of unlike kinds with short answers, which a small model can learn something of.
TASKS = (
    "reasoning-gym:letter_counting", "reasoning-gym:spell_backward", "reasoning-gym:gcd", "reasoning-gym:syllogism",
    "reasoning-gym:calendar_arithmetic", "reasoning-gym:family_relationships",
)  # fmt: skip


def text_stream(settings: ContinualSettings) -> "TextStream":
    """Return the model and the tasks of these settings. Raises UsageError if one of them does not exist."""
    s = settings
    names = s.order_tasks(s.tasks or TASKS)
    tasks = [load_task(name, s.seed, s.train_examples, s.test_examples) for name in names]
    language_model = load_model(s.model, s.device, s.seed)
    check_context(language_model, s.model, s.max_length, s.max_new_tokens)
    return TextStream(language_model, tasks, s)


class TextStream:
    """A pretrained model and a sequence of tasks, which `ContinualWork` trains it on one after the other.

    Tasks are numbered from 0 in the order of learning. All random numbers are determined by the run's seed and the
    position (task, update), so checkpoints contain nothing of a stream. These tasks are of text, learned in epochs over
    their examples, each in its own order. The last batch of an epoch may be smaller. Scores are those of
    `answers.task_score`. `images.xtail.ImageStream` has the same attributes and methods for images.

    model: on its device, with plain Linear layers only. `ContinualWork` puts adapters into it in place. names: of the
    tasks. scores: the name of each task's score ("accuracy", "rouge_l", …). layers: the plain model's layers in forward
    order, as for `Learner`. units: names of the modules whose outputs are hidden units, in forward order. features:
    name of the module whose outputs the heads read. sources: descriptions of the model and of the data, by name.
    """

    def __init__(self, language_model: LanguageModel, tasks: Sequence[TaskData], settings: ContinualSettings) -> None:
        self.language_model, self.tasks, self.settings = language_model, tasks, settings
        self.model = model = language_model.model
        self.names, self.scores = tuple(task.name for task in tasks), tuple(task.score for task in tasks)
        self.layers, self.units, self.features = causal_layers(model), causal_units(model), causal_features(model)
        self.sources = {
            "model": language_model.source,
            **{f"task {i}": task.description for i, task in enumerate(tasks)},
        }
        self.encoded = [encode(language_model.tokenizer, task.train, settings.max_length) for task in tasks]

    def updates_per_epoch(self, task: int) -> int:
        """Return the number of batches in one epoch over the training data of a task, ≥ 1."""
        return -(-len(self.encoded[task]) // self.settings.batch_size)

    def loss(self, task: int, update: int) -> Tensor:
        """Return the mean training loss on the batch of a task's update (from 0), differentiable, ().

        Here it is the mean negative log-likelihood per answer token, over all answers of the batch."""
        return mean_nll(self.language_model, self._rows(task, update))

    def losses(self, task: int, update: int) -> Tensor:
        """Return the mean negative log-likelihood per token of each answer, (batch,)."""
        return token_nll(self.language_model, self._rows(task, update))

    def inputs(self, task: int, update: int) -> tuple[Tensor]:
        """Return the positional arguments of one forward pass of the model on that batch.

        Padding is left out, because metrics use all inputs: here they are cut to the length of the shortest example."""
        return (shortest_ids(self._rows(task, update)).to(self.settings.device),)

    def passes(self, task: int) -> Iterator[tuple[Tensor]]:
        """Yield the positional arguments of passes over all training data of a task, each example once and whole.

        Here they are examples of equal length, which have no padding."""
        ordered, size = sorted(self.encoded[task], key=len), self.settings.batch_size
        for _, group in groupby(ordered, len):
            rows = list(group)
            for start in range(0, len(rows), size):
                yield (shortest_ids(rows[start : start + size]).to(self.settings.device),)

    def score(self, task: int, examples: int | None = None) -> float:
        """Return the current score of a task on its test data, or on so many of its first examples, in [0, 1].

        The model is in evaluation mode. No generator is advanced."""
        s = self.settings
        return task_score(
            self.language_model, self.tasks[task], max_new_tokens=s.max_new_tokens, batch_size=s.eval_batch,
            max_length=s.max_length, examples=examples,
        )  # fmt: skip

    def save(self, folder: Path) -> None:
        save_model(self.language_model, folder)

    def _rows(self, task: int, update: int) -> list[Encoded]:
        """Return the examples of an update."""
        encoded, size = self.encoded[task], self.settings.batch_size
        epoch, batch = divmod(update, self.updates_per_epoch(task))
        order = torch.randperm(len(encoded), generator=generator(self.settings.seed, "batches", task, epoch))
        return [encoded[i] for i in order[batch * size : (batch + 1) * size].tolist()]
