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
from .stream import TaskStream

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


class TextStream(TaskStream):
    """Tasks of text, learned in epochs over their examples, each in its own order.

    The last batch of an epoch may be smaller. Scores are those of `answers.task_score`."""

    def __init__(self, language_model: LanguageModel, tasks: Sequence[TaskData], settings: ContinualSettings) -> None:
        self.language_model, self.tasks, self.settings = language_model, tasks, settings
        self.model = model = language_model.model
        self.names, self.scores = tuple(task.name for task in tasks), tuple(task.score for task in tasks)
        self.layers, self.units, self.features = causal_layers(model), causal_units(model), causal_features(model)
        self.unwired = dict.fromkeys(self.units, "lies in a gated MLP, where the outputs of another layer multiply it")
        self.sources = {
            "model": language_model.source,
            **{f"task {i}": task.description for i, task in enumerate(tasks)},
        }
        self.encoded = [encode(language_model.tokenizer, task.train, settings.max_length) for task in tasks]

    def updates_per_epoch(self, task: int) -> int:
        return -(-len(self.encoded[task]) // self.settings.batch_size)

    def loss(self, task: int, update: int) -> Tensor:
        """Return the mean negative log-likelihood per answer token, over all answers of the batch."""
        return mean_nll(self.language_model, self._rows(task, update))

    def losses(self, task: int, update: int) -> Tensor:
        """Return the mean negative log-likelihood per token of each answer, (batch,)."""
        return token_nll(self.language_model, self._rows(task, update))

    def inputs(self, task: int, update: int) -> tuple[Tensor]:
        """Return the inputs, cut to the length of the shortest example, so that no padding is measured."""
        return (shortest_ids(self._rows(task, update)).to(self.settings.device),)

    def passes(self, task: int) -> Iterator[tuple[Tensor]]:
        """Yield forward passes of examples of equal length, which have no padding."""
        ordered, size = sorted(self.encoded[task], key=_length), self.settings.batch_size
        for _, group in groupby(ordered, _length):
            rows = list(group)
            for start in range(0, len(rows), size):
                yield (shortest_ids(rows[start : start + size]).to(self.settings.device),)

    def score(self, task: int, examples: int | None = None) -> float:
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


def _length(example: Encoded) -> int:
    return len(example.ids)
