"""A small network learns y = a·x, with a new slope a in every task."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from supple.engine.seeding import generator
from supple.engine.work import Task
from supple.interventions import learner_for
from supple.reports.studies.content import Report
from supple.reports.study_report import summarize
from supple.tracks.settings import TrackSettings
from supple.tracks.supervised import SupervisedWork


@dataclass(kw_only=True)
class SlopeSettings(TrackSettings):
    slopes: tuple[float, ...] = (1.0, -1.0)
    """The slope of each task."""
    updates_per_task: int = 100
    """Updates per task."""
    learning_rate: float = 0.01
    """Learning rate of Adam."""
    eval_every: int = 20
    """Updates between two evaluations. 0 evaluates only where tasks begin and end."""


class SlopeWork(SupervisedWork):
    settings: SlopeSettings
    best_by = "loss"

    def __init__(self, settings: SlopeSettings) -> None:
        s, span = settings, settings.updates_per_task
        super().__init__(s, [Task(i, i * span, (i + 1) * span, f"{slope:g}") for i, slope in enumerate(s.slopes)])
        torch.manual_seed(s.seed)
        network = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1)).to(s.device)
        optimizer = torch.optim.Adam(network.parameters(), lr=s.learning_rate)
        self.learner = learner_for(
            network,
            optimizer,
            probe=lambda: self._batch(*self.place)[:1],
            loss=lambda: self._loss(*self.place),
            seed=s.seed,
        )

    def loss(self, task: Task, update: int, part: int) -> Tensor:
        """Return the mean squared error on the batch of an update."""
        return self._loss(task, update)

    def rate(self, task: Task, update: int) -> float:
        """Return the learning rate as a fraction of its maximum."""
        return 1.0

    @torch.no_grad()
    def examine(self, task: Task) -> dict[str, float]:
        """Return the loss on held-out examples of the task."""
        return {"loss": float(self._loss(task, -1))}

    def _loss(self, task: Task, update: int) -> Tensor:
        x, y = self._batch(task, update)
        return (self.learner.module(x) - y).square().mean()

    def _batch(self, task: Task, update: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(32, 1, generator=generator(self.settings.seed, "batch", task.index, update))
        return x.to(self.settings.device), self.settings.slopes[task.index] * x.to(self.settings.device)


REPORT = Report("slopes", summarize, named="", since_fork=True)
