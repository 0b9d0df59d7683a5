"""Supervised fine-tuning (the SIB paper, 3.1): the loss on answers, and scores of what is learned and retained."""

import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from supple.engine.seeding import generator
from supple.engine.work import Task
from supple.interventions import RetainLoss
from supple.networks.causal import causal_learner
from supple.registry.errors import UsageError
from supple.tracks.language.answers import answer_loss, answer_nll, answer_tokens, mean_nll, task_score, token_nll
from supple.tracks.language.chat import Encoded, encode, shortest_ids
from supple.tracks.language.examples import TaskData, load_task
from supple.tracks.language.gpt import make_adamw
from supple.tracks.language.models import LanguageModel, check_context, load_model, save_model
from supple.tracks.language.schedule import cosine_rate
from supple.tracks.supervised import SupervisedWork

from .settings import SFTSettings


class FinetuneWork(SupervisedWork):
    """One task: a model, the examples that it learns, and those that it should retain.

    Batches are taken from an endless sequence of epochs, each a permutation of the examples drawn from (seed, epoch). A
    batch may contain examples of two epochs, so every batch is full. What is left after the last batch is dropped. The
    cool-down continues in the same sequence.
    """

    settings: SFTSettings
    batch = ("micro_batch",)
    best_by = "learn_loss"

    def __init__(
        self, settings: SFTSettings, language_model: LanguageModel, learn: TaskData, retain: TaskData | None
    ) -> None:
        s = self.settings = settings
        self.language_model = language_model
        self.examined = {"learn": learn} | ({"retain": retain} if retain else {})
        self.train = self._encode(learn, "train")
        self.tests = {kind: self._encode(data, "test") for kind, data in self.examined.items()}
        self.retained = self._encode(retain, "train") if retain else []
        self.parts = s.batch_size // s.micro_batch
        updates = int(s.epochs * len(self.train)) // s.batch_size
        if not updates:
            raise UsageError(
                f"--learn {s.learn} has {len(self.train)} training examples: {s.epochs:g} epochs of them are less than "
                f"one batch of {s.batch_size} (--batch-size)"
            )
        super().__init__(s, [Task(0, 0, updates + s.cooldown, learn.name)])
        self.sources = {"model": language_model.source} | {k: d.description for k, d in self.examined.items()}
        self.learner = causal_learner(
            language_model.model,
            make_adamw(language_model.model, s.learning_rate, s.weight_decay, betas=(0.9, 0.999)),
            probe=lambda: (shortest_ids(self._recent_rows()).to(s.device),),  # no padding is measured
            loss=lambda: mean_nll(language_model, self._recent_rows()),
            generator=generator(s.seed, "interventions"),
            batches=self._batches,
        )
        if retain:
            self.learner.offer(RetainLoss(lambda: mean_nll(language_model, self.retained)))

    def loss(self, task: Task, update: int, part: int) -> Tensor:
        """Return the mean over the answer tokens of the whole batch, as a sum over its micro-batches."""
        rows, size = self._rows(update), self.settings.micro_batch
        with self.settings.autocast():
            losses = answer_nll(self.language_model, rows[part * size : (part + 1) * size])
            return losses.sum() * (self.parts / answer_tokens(rows))

    def rate(self, task: Task, update: int) -> float:
        s = self.settings
        return cosine_rate(update, task.steps, s.warmup, s.cooldown, s.min_rate)

    def examine(self, task: Task) -> dict[str, float]:
        """Return the scores on the test examples of what is learned and what is retained.

        They are learn_loss and retain_loss (nats per answer token), and the tasks' scores, such as learn_accuracy and
        retain_accuracy."""
        s, lm, numbers = self.settings, self.language_model, dict[str, float]()
        for kind, data in self.examined.items():
            with s.autocast():
                numbers[f"{kind}_loss"] = answer_loss(lm, self.tests[kind], s.batch_size)
                if s.examine:
                    numbers[f"{kind}_{data.score}"] = task_score(
                        lm, data, max_new_tokens=s.max_new_tokens, batch_size=s.batch_size, max_length=s.max_length
                    )
        return numbers

    def export(self, folder: Path) -> None:
        if self.settings.save_model:
            save_model(self.language_model, folder)

    # -- data -------------------------------------------------------------------------------------------------------

    def _encode(self, data: TaskData, split: str) -> list[Encoded]:
        length = self.settings.max_length
        encoded = encode(self.language_model.tokenizer, getattr(data, split), length)
        if long := sum(example.cut > 0 for example in encoded):
            warnings.warn(
                f"{data.name}: {long} of {len(encoded)} {split} examples are longer than {length} tokens "
                "(--max-length) and lose the beginning of their prompt",
                stacklevel=2,
            )
        return encoded

    def _rows(self, update: int) -> list[Encoded]:
        """Return the examples of an update, sorted by length, so that micro-batches need little padding."""
        size, count = self.settings.batch_size, len(self.train)
        places = (divmod(place, count) for place in range(update * size, (update + 1) * size))
        examples = (self.train[_order(count, self.settings.seed, epoch)[i]] for epoch, i in places)
        return sorted(examples, key=len)

    # -- what the learner offers ------------------------------------------------------------------------------------

    def _recent_rows(self) -> list[Encoded]:
        """Return a micro-batch of the update at `place`, with examples of all lengths."""
        return self._rows(self.place[1])[:: self.parts]

    def _batches(self, count: int | None) -> Iterator[Tensor]:
        """Yield the mean losses per answer token of single examples, for the batches from `place` on."""
        size, now = self.settings.micro_batch, self.place[1]
        total = -(-len(self.train) // size) if count is None else count
        for i in range(total):
            rows = self._rows(now + i // self.parts)[i % self.parts :: self.parts]
            yield token_nll(self.language_model, rows)


@lru_cache(8)
def _order(count: int, seed: int, epoch: int) -> list[int]:
    """Return the order of the examples in an epoch."""
    return list(torch.randperm(count, generator=generator(seed, "examples", epoch)).tolist())


def build(settings: SFTSettings) -> FinetuneWork:
    """Return the run's work.

    Raises UsageError for settings that cannot work, and RunError for a model that cannot be loaded."""
    s = settings
    learn = load_task(s.learn, s.seed, s.train_examples, s.test_examples)
    retain = load_task(s.retain, s.seed, s.retain_batch, s.test_examples) if s.retain else None
    language_model = load_model(s.model, s.device, s.seed)
    check_context(language_model, s.model, s.max_length, s.max_new_tokens)
    return FinetuneWork(s, language_model, learn, retain)
