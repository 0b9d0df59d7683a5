"""Warm-started pretraining (FIRE, Section 4.2): a GPT on one corpus, and from one of its states on others."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from math import fsum
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from supple.engine.compile import can_compile
from supple.engine.machine import distributed
from supple.engine.seeding import derive, generator
from supple.engine.work import Numbers, Task
from supple.interventions import Learner
from supple.registry.errors import UsageError
from supple.tracks.language.corpora import Corpus, Mixture, draw_windows, validation_windows
from supple.tracks.language.gpt import GPT, GPTConfig, gpt_learner, make_adamw
from supple.tracks.language.schedule import linear_rate
from supple.tracks.supervised import SupervisedWork

from .data import load
from .settings import PretrainSettings

Batch = tuple[Tensor, Tensor]  # inputs and targets, (B, T) int64 each
PADDING = 64  # the vocabulary is filled up to a multiple: GPT-2's 50,257 to 50,304, as in nanoGPT


class PretrainWork(SupervisedWork):
    """A GPT and its corpora. The second phase starts at an update of the first, with a new warm-up."""

    settings: PretrainSettings
    batch = "micro_batch", "block_size"
    best_by = "val_loss"

    def __init__(self, settings: PretrainSettings, corpora: dict[str, Corpus], phases: list[Mixture]) -> None:
        s, ends = settings, pairwise([0, settings.first_end, settings.first_end + settings.steps])
        self.names = [s.first, s.second][: len(phases)]  # of the corpora of each phase
        super().__init__(
            s, [Task(i, *span, " + ".join(own)) for i, (own, span) in enumerate(zip(self.names, ends, strict=False))]
        )
        self.phases, self.device = phases, torch.device(s.device)
        passes, world = s.batch_size // s.micro_batch, distributed.world()
        if passes % world:
            raise UsageError(
                f"{passes} micro-batches cannot be shared by {world} processes: --batch-size must be a multiple of "
                f"--micro-batch times their number"
            )
        self.parts = passes // world
        self.sources = {name: f"{c.train.path.parent.name}, {c.train.about['sha256']}" for name, c in corpora.items()}
        vocabulary = -(-next(iter(corpora.values())).train.about["vocab_size"] // PADDING) * PADDING
        config = GPTConfig(vocabulary, s.block_size, s.layers, s.heads, s.width, s.dropout, activation=s.activation)
        model = GPT(config, generator(s.seed, "init")).to(self.device)
        self.learner: Learner = gpt_learner(
            model,
            make_adamw(model, s.learning_rate, s.weight_decay),
            probe=lambda: self._recent_batch()[:1],
            loss=lambda: model(*self._recent_batch()),
            batches=self._batches,
            generator=generator(s.seed, "interventions"),
        )
        self.model = model
        objective: Any = DistributedDataParallel(model) if distributed.is_joined() else model
        self.objective: Any = torch.compile(objective) if s.compile else objective
        self.validation = {
            name: self._to_device(validation_windows(corpus.validation, s.val_sequences, s.block_size))
            for name, corpus in corpora.items()
        }
        self._update: tuple[int, int, Batch] | None = None  # the batch of an update: task, update, its sequences
        self._batch(self.tasks[-1], 0)  # refuses corpora that are too small
        self._batch(self.tasks[0], 0)

    def loss(self, task: Task, update: int, part: int) -> Tensor:
        s, size, several = self.settings, self.settings.micro_batch, distributed.world() > 1
        tokens, targets = (side[part * size : (part + 1) * size] for side in self._batch(task, update))
        gpus = [self.device] if self.device.type == "cuda" else []
        with s.autocast(), torch.random.fork_rng(gpus, enabled=several):
            if several:  # dropout masks of its own; all else that is drawn is the same in all processes
                torch.manual_seed(derive(s.seed, "dropout", task.index, update, part, distributed.rank()))
            return self.objective(tokens, targets)

    def rate(self, task: Task, update: int) -> float:
        s = self.settings
        if task.index == 0:  # the schedule of the whole first phase, wherever a second one starts
            return linear_rate(update, s.pretrain_steps, s.warmup, s.min_rate)
        return linear_rate(update, task.steps, round(s.second_warmup * task.steps), s.min_rate)

    def examine(self, task: Task) -> dict[str, float]:
        """Return the mean loss in nats per token on validation windows of every corpus, and on those of this task."""
        losses = {f"val_loss/{name}": self._validation_loss(name) for name in self.validation}
        names, shares = self.names[task.index], self.phases[task.index].shares
        mean = fsum(share * losses[f"val_loss/{name}"] for name, share in zip(names, shares, strict=True))
        return {"val_loss": mean, **losses}

    def accumulating(self, part: int) -> AbstractContextManager[Any]:
        """Return a context in which processes exchange gradients only at the last part."""
        early = distributed.is_joined() and part < self.parts - 1
        return self.objective.no_sync() if early else nullcontext()

    def merit(self, task: Task, numbers: Numbers) -> float | None:
        """Return the merit of states of the first phase, from which second phases start."""
        return super().merit(task, numbers) if task.index == 0 else None

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(step for step in self.settings.keep_at if step <= self.tasks[0].end)

    # -- data -------------------------------------------------------------------------------------------------------

    def _batch(self, task: Task, update: int) -> Batch:
        """Return the sequences of an update that this process trains on."""
        if self._update is None or self._update[:2] != (task.index, update):
            batch = self._windows(task, update, distributed.rank(), distributed.world())
            self._update = (task.index, update, self._to_device(batch))
        return self._update[2]

    def _windows(self, task: Task, update: int, rank: int = 0, ranks: int = 1) -> Batch:
        s, source = self.settings, self.phases[task.index]
        return draw_windows(source, s.seed, task.index, update, s.batch_size, s.block_size, rank, ranks)

    def _to_device(self, batch: Batch) -> Batch:
        if self.device.type == "cuda":
            inputs, targets = (side.pin_memory().to(self.device, non_blocking=True) for side in batch)
            return inputs, targets
        return batch

    def _recent_batch(self, update: int | None = None) -> Batch:
        """Return a micro-batch of the update at `place`, or of another update of its task.

        It is the same in every process, so that interventions that use it have the same result in all."""
        task, now = self.place
        place = now if update is None else update
        alone = distributed.world() == 1
        batch = self._batch(task, place) if alone else self._to_device(self._windows(task, place))
        inputs, targets = (side[: self.settings.micro_batch] for side in batch)
        return inputs, targets

    def _batches(self, count: int | None) -> Iterator[Tensor]:
        task, now = self.place
        if count is None:  # one pass: as many windows as fit side by side
            tokens = sum(len(part) for part in self.phases[task.index].parts)
            count = max(1, tokens // (self.settings.micro_batch * self.settings.block_size))
        for i in range(count):
            yield self.model.losses(*self._recent_batch(now - i if i <= now else i))

    @torch.no_grad()
    def _validation_loss(self, name: str) -> float:
        inputs, targets = self.validation[name]
        size = self.settings.micro_batch
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for start in range(0, len(inputs), size):
            part = slice(start, start + size)
            with self.settings.autocast():
                loss = self.model(inputs[part], targets[part])
            total += loss.double() * len(inputs[part])
        return float(total) / len(inputs)


def build(settings: PretrainSettings) -> PretrainWork:
    """Return the GPT and its corpora. Raises UsageError if the settings cannot work."""
    if settings.compile and not can_compile():
        raise UsageError("--compile True: torch.compile does not work here (it needs a C++ compiler)")
    return PretrainWork(settings, *load(settings))
