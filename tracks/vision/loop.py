"""The training loop of classifiers: batch → update → hooks → measure → test → log → checkpoint, task after task."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ...experiments import checkpoint
from ...experiments.errors import RunError
from ...experiments.hooks import HookDriver
from ...experiments.learner_state import learner_state, load_learner_state
from ...experiments.rundir import OF_CLASSIFIERS, RunDirectory
from ...experiments.seeding import derive
from ...interventions.contract import zero_slots_
from ...metrics import METRICS, View, measure, measure_members
from .feed import Feed
from .model import Model
from .shock import Shock
from .stream import Images, Stream, Task
from .update import Update

Progress = Callable[[int], None]
EVERY = 200  # updates between two signs of progress, at which a diverged loss is noticed


@dataclass
class Loop:
    """One run between its start and its end, at an update (`step`) that only grows.

    What each member sees is drawn from its seed and the place in the stream alone, so a checkpoint may lie anywhere:
    a run that is resumed goes on bit for bit like one that was never interrupted.
    """

    run: RunDirectory
    stream: Stream
    model: Model
    hooks: HookDriver
    start: int
    end: int
    compiled: bool
    warn: Callable[[str], None]
    step: int = 0
    saved: Path | None = None  # the last checkpoint
    sums: dict[str, Tensor] = field(default_factory=dict)  # of this task so far, (members,) each: hits, loss

    def __post_init__(self) -> None:
        s = self.stream.settings
        self.settings = s
        self.update = Update(self.model, self.hooks, self.compiled)
        self.shock = Shock(self.model, s.shocks, s.shock_every) if s.shock_every else None
        self.tested: dict[int, Images] = {}

    def train(self, progress: Progress) -> None:
        """Go on from the newest intact checkpoint, or from the beginning, to the end."""
        self._restore()
        progress(self.step)
        for task in self.stream.tasks:
            if task.start <= self.step < min(task.end, self.end):
                try:
                    self._learn(task, progress)
                except (ValueError, torch.linalg.LinAlgError):  # so metrics and hooks refuse what is not finite
                    if self.sums:
                        self._check(task, closely=True)
                    raise

    def _learn(self, task: Task, progress: Progress) -> None:
        self.model.network.train()
        if self.step == self.start == task.start and task.index:
            # a fork: the trunk's hooks saw the last task end, not ours
            self._feed(self.stream.tasks[task.index - 1])
            self.hooks.finished()
        s, feed = self.settings, self._feed(task)
        if self.step == self.start:
            self.hooks.passed(self.start - 1, self.start)
        if self.step == task.start:
            self._begin(task)
        before = self._shocks_before(task)
        until = min(task.end, self.end)
        while self.step < until:
            done = self.step - task.start
            if self.shock:
                self.shock.set(self.epoch(task, done), before)
            images, labels = feed.batch()
            loss, hits = self.update(images, labels, self._rate(task, done))
            self.sums["loss"] += loss
            self.sums["hits"] += hits
            self.step += 1
            self.hooks.passed(self.step - 1, self.step)
            if self.step % EVERY == 0 or self.step == until:
                self._check(task)
                progress(self.step)
            if self.step % s.measure_every == 0 or self.step == until:
                self._measure(task)
            if self.step == task.end:
                self._finish(task)
            elif self._epochs_passed(task, done, s.eval_every):
                self._test(task)
            if self.step == self.end or self.step % s.checkpoint_every == 0:
                self._check(task, closely=True)
                self._save()

    def _feed(self, task: Task) -> Feed:
        """The data of a task, as they are at this step; from now on they are the learner's."""
        self.model.feed = feed = Feed(self.stream, task, self.model.device)
        feed.update = self.step - task.start
        return feed

    def _begin(self, task: Task) -> None:
        self.run.event(event="task", step=self.step, task=task.index)
        members = self.model.members
        self.sums = {
            name: torch.zeros(members, dtype=torch.float64, device=self.model.device) for name in ("loss", "hits")
        }
        if self.settings.fresh_optimizer and task.index and (optimizer := self.model.learner.optimizer):
            zero_slots_(optimizer, list(self.model.network.parameters()))
        if task.index:
            self.hooks.switched(self.step, task.index)
            if self.settings.eval_every:
                self._test(task)

    def _finish(self, task: Task) -> None:
        """The end of a task: how well it was learned, while it was learned and now."""
        if self.shock:
            self._test(task)  # as its last epoch was, for the curve of its last shock
            self.shock.set(0)
        accuracies = self._accuracies(task)
        for member, seed in enumerate(self.settings.seeds):
            self.run.task(
                step=self.step,
                task=task.index,
                seed=seed,
                updates=task.updates,
                online_accuracy=float(self.sums["hits"][member]) / (task.updates * self.settings.batch_size),
                online_loss=float(self.sums["loss"][member]) / task.updates,
                **{name: values[member] for name, values in accuracies.items()},
            )
        self.run.flush()
        self.hooks.finished()

    def _accuracies(self, task: Task) -> dict[str, list[Any]]:
        """Accuracy on the task's test images by member; in a stream of classes that stay apart, on those of all tasks
        so far."""
        found: dict[str, list[Any]] = {"test_accuracy": self.model.accuracy(self._test_images(task)).tolist()}
        if self.settings.stream == "split":
            past = [self.model.accuracy(self._test_images(t)) for t in self.stream.tasks[: task.index]]
            rows = torch.stack([*past, torch.tensor(found["test_accuracy"])], 1)
            found["accuracies"] = rows.tolist()
        return found

    def _test(self, task: Task) -> None:
        accuracies = self.model.accuracy(self._test_images(task)).tolist()
        saturated = METRICS["saturated_fraction"].value(View(self.model.learner)).tolist() if self.shock else []
        for member, (seed, accuracy) in enumerate(zip(self.settings.seeds, accuracies, strict=True)):
            values = {"task": task.index, "test_accuracy": accuracy}
            if self.shock:
                values |= {"gamma": self.shock.gamma, "saturated_fraction": saturated[member]}
            self.run.metrics(self.step, values, seed=seed)
        self.run.flush()

    def _test_images(self, task: Task) -> Images:
        if task.index not in self.tested:
            keep = self.tested if self.settings.stream == "split" else {}
            self.tested = {**keep, task.index: self.stream.test(task).to(self.model.device)}
        return self.tested[task.index]

    def _measure(self, task: Task) -> None:
        view = View(self.model.learner)
        costly = self.settings.curvature
        own = measure_members(view, True, costly) if self.model.stacked else [measure(view, True, costly=costly)]
        replaced = self.hooks.numbers()
        for member, seed in enumerate(self.settings.seeds):
            values = {"task": task.index, **{f"model/{name}": value for name, value in own[member].items()}}
            values |= {name: float(number.expand(len(own))[member]) for name, number in replaced.items()}
            self.run.metrics(self.step, values, seed=seed)
        self.run.flush()
        means = {name: fmean(numbers[name] for numbers in own) for name in own[0]}
        self.hooks.measured(self.step, {f"model/{name}": value for name, value in means.items()})

    def _check(self, task: Task, closely: bool = False) -> None:
        """Raise RunError if a member's loss was not finite; closely: if the next would not be. What was saved stays."""
        sound = torch.isfinite(self.sums["loss"])
        if closely:
            sound &= self.model.sound()
        if bad := torch.nonzero(~sound).flatten().tolist():
            seeds = ", ".join(str(self.settings.seeds[member]) for member in bad)
            raise RunError(
                f"seed {seeds}: training diverged in task {task.index} by update {self.step}, its loss is not finite: "
                f"a smaller --learning-rate or --clip may help; the last checkpoint is kept"
            )

    def _shocks_before(self, task: Task) -> int:
        """How many shocks there are in the tasks before this one."""
        every, earlier = self.settings.shock_every, self.stream.tasks[: task.index]
        return sum(self.epoch(t, t.updates - 1) // every for t in earlier) if every else 0

    def epoch(self, task: Task, done: int) -> int:
        """The pass over the task's images that an update of it belongs to, from 0."""
        return done * self.settings.batch_size // task.size

    def _epochs_passed(self, task: Task, done: int, every: float) -> bool:
        """Whether a multiple of so many passes lies between the update `done` and the next."""
        images, size = every * task.size, self.settings.batch_size
        return every > 0 and (done + 1) * size // images > done * size // images

    def _rate(self, task: Task, done: int) -> float:
        """The learning rate as a share of its full value: it rises linearly over the task's warm-up."""
        rising = self.settings.warmup * task.updates
        return min(1.0, (done + 1) / rising) if rising else 1.0

    # -- checkpoints --------------------------------------------------------------------------------------------

    def _save(self) -> None:
        tree = {
            "step": self.step,
            "sums": self.sums,
            "learner": learner_state(self.model.learner),
            "activations": [each.get_state() for each in self.model.generators],
            "hooks": self.hooks.state_dict(),
            "logs": self.run.log_lengths(),
            "seconds": self.run.seconds(),
        }
        self.saved = checkpoint.save(self.run.checkpoints, self.step, tree, self.run.identity, self.saved)
        checkpoint.prune(self.run.checkpoints, self.settings.keep_checkpoints, self.step)

    def _restore(self) -> None:
        torch.manual_seed(derive(self.settings.seeds[0], "torch"))
        tree = checkpoint.newest(self.run.checkpoints, self.run.identity, self.warn)
        if tree is None:
            if self.start:
                raise RunError(f"{self.run.checkpoints}: a fork without its checkpoint cannot begin")
            self.run.start_logs({}, 0.0, OF_CLASSIFIERS)
            return
        self.step = self.model.updates = tree["step"]
        self.saved = checkpoint.folder_of(self.run.checkpoints, self.step)
        self.sums = {name: tensor.to(self.model.device) for name, tensor in tree["sums"].items()}
        load_learner_state(self.model.learner, tree["learner"])
        for member, state in zip(self.model.generators, tree["activations"], strict=True):
            member.set_state(state)
        self.hooks.load_state_dict(tree["hooks"])
        checkpoint.prune(self.run.checkpoints, self.settings.keep_checkpoints, self.step)
        if self.step < self.end:  # a finished run is left untouched
            self.run.start_logs(tree["logs"], tree["seconds"], OF_CLASSIFIERS)
