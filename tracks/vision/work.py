"""Classifiers on a stream of tasks, as a `Work`."""

from typing import Any

import torch
from torch import Tensor

from supple.engine.compile import can_compile
from supple.engine.hooks.driver import HookDriver
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.engine.storage.restoring import require_like
from supple.engine.storage.run_directory import RunDirectory
from supple.engine.work import Numbers, Work, crossed
from supple.interventions import Learner
from supple.interventions.contract import zero_slots_
from supple.metrics import METRICS, Measured, View
from supple.registry.errors import Diverged, UsageError

from .data import load
from .feed import ImageFeed
from .model import Model
from .settings import VisionSettings
from .shock import Shock
from .task_data import Images, ImageTask, Stream
from .update import Update

COMPILE_PAYS_AFTER = 20_000  # updates


class VisionWork(Work[ImageTask]):
    """The networks of all seeds on their streams, trained in step. A step is an update.

    The data of a member are determined by its seed and the position in the stream, so a checkpoint can be anywhere.
    """

    settings: VisionSettings
    batch = ("batch_size",)
    check_every = 200
    best_by, more_is_better = "test_accuracy", True

    def __init__(self, settings: VisionSettings, stream: Stream, model: Model) -> None:
        s = self.settings = settings
        self.stream, self.model = stream, model
        self.tasks, self.seeds = stream.tasks, s.members
        self.sources = {stream.data.name: stream.data.contents or stream.data.source}
        if len(self.seeds) > 1:
            self.no_best = "each seed of a stack is best at another update: train one seed at a time"
        self.update: Update | None = None
        self.shock = Shock(model, s.shocks, s.shock_every) if s.shock_every else None
        self.sums = self._zeros()
        self.tested: dict[int, Images] = {}
        self.look_at(self.tasks[0], 0)

    @property
    def learners(self) -> dict[str, Learner]:
        return {"model": self.model.learner}

    def _zeros(self) -> dict[str, Tensor]:
        """Return sums over this task so far, (members,) each: hits and losses."""
        members, device = self.model.members, self.model.device
        return {name: torch.zeros(members, dtype=torch.float64, device=device) for name in ("loss", "hits")}

    # -- learning -----------------------------------------------------------------------------------------------

    def enter(self, task: ImageTask) -> None:
        self.sums = self._zeros()
        if self.settings.fresh_optimizer and task.index and (optimizer := self.model.learner.optimizer):
            zero_slots_(optimizer, list(self.model.network.parameters()))
        earlier, period = self.tasks[: task.index], self.settings.shock_every
        self.shocked_before = sum(self._epoch(t, t.steps - 1) // period for t in earlier) if period else 0

    def look_at(self, task: ImageTask, step: int) -> None:
        self.model.feed = self.feed = ImageFeed(self.stream, task, self.model.device)
        self.feed.update = min(step, task.end) - task.start

    def advance(self, task: ImageTask, step: int, until: int, hooks: HookDriver, run: RunDirectory) -> int:
        """Make one optimizer step of every member."""
        if self.update is None:
            self.update = Update(self.model, hooks, self.settings.compile == "on")
        update = step - task.start
        if self.shock:
            self.shock.set(self._epoch(task, update), self.shocked_before)
        images, labels = self.feed.batch()
        rising = self.settings.warmup * task.steps
        rate = min(1.0, (update + 1) / rising) if rising else 1.0
        with self.products:
            loss, hits = self.update(images, labels, rate)
        self.sums["loss"] += loss
        self.sums["hits"] += hits
        return 1

    def check(self, closely: bool = False) -> None:
        """Raise Diverged if the loss of a member was not finite; `closely`: also if the next one would not be."""
        sound = torch.isfinite(self.sums["loss"])
        if closely:
            sound &= self.model.sound()
        if bad := [member for member in torch.nonzero(~sound).flatten().tolist() if member not in self.frozen]:
            raise Diverged(f"the loss is not finite in task {self.feed.task.index}", bad)

    def reset_frozen(self) -> None:
        super().reset_frozen()
        for values in self.sums.values():
            values[list(self.frozen)] = 0

    def _epoch(self, task: ImageTask, update: int) -> int:
        """Return the epoch of a task, from 0, to which an update belongs."""
        return update * self.settings.batch_size // task.size

    # -- how well it does -----------------------------------------------------------------------------------------

    def measure(self, costly: bool) -> Measured:
        online = self._online(max(1, self.feed.update))  # of this task so far
        return [
            numbers | {name: values[member] for name, values in online.items()}
            for member, numbers in enumerate(super().measure(costly))
        ]

    def _online(self, updates: int) -> dict[str, list[float]]:
        """Return each member's mean loss and accuracy over this number of updates of the task."""
        accuracy = self.sums["hits"] / (updates * self.settings.batch_size)
        return {"online_loss": (self.sums["loss"] / updates).tolist(), "online_accuracy": accuracy.tolist()}

    def evaluation_due(self, task: ImageTask, previous: int, step: int) -> bool:
        """Return whether to evaluate at this step.

        There are evaluations within tasks if the settings ask for them, and then also at the start of later tasks. At
        the end of a task there is one if there are shocks, for the curve of the last one, or if the best state is
        kept."""
        s = self.settings
        if previous == step:
            return task.index > 0 and bool(s.eval_epochs or s.eval_every)
        if step == task.end:
            return self.shock is not None or s.keep_best
        before, now = (place - task.start for place in (previous, step))
        images, size = s.eval_epochs * task.size, s.batch_size
        return crossed(previous, step, s.eval_every) or (images > 0 and now * size // images > before * size // images)

    def evaluate(self, task: ImageTask) -> Numbers:
        """Return the accuracy on the task's test images and, with shocks, their factor and the saturated fraction."""
        numbers: Numbers = {"test_accuracy": self.model.accuracy(self._test_images(task)).tolist()}
        if self.shock:
            numbers["gamma"] = [self.shock.gamma] * len(self.seeds)
            numbers["saturated_fraction"] = METRICS["saturated_fraction"].value(View(self.model.learner)).tolist()
        return numbers

    def merit(self, task: ImageTask, numbers: Numbers) -> float | None:
        """Return the test accuracy of the only seed, by which the best state is chosen."""
        return float(numbers[self.best_by][0])

    def finish(self, task: ImageTask, numbers: Numbers) -> Numbers:
        """Return the accuracies of a task during training and now, without shocks.

        In a split stream, `accuracies` are those on the test images of all tasks so far."""
        if self.shock:
            self.shock.set(0)
        split = self.settings.stream == "split"
        tested = self.tasks[: task.index + 1] if split else [task]
        accuracies = torch.stack([self.model.accuracy(self._test_images(each)) for each in tested], 1)
        results = self._online(task.steps) | {"test_accuracy": accuracies[:, -1].tolist()}
        return {**results, "accuracies": accuracies.tolist()} if split else results

    def _test_images(self, task: ImageTask) -> Images:
        if task.index not in self.tested:
            keep = self.tested if self.settings.stream == "split" else {}
            self.tested = {**keep, task.index: self.stream.test(task).to(self.model.device)}
        return self.tested[task.index]

    # -- checkpoints --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "learner": learner_state(self.model.learner),
            "sums": self.sums,
            "activations": [source.get_state() for source in self.model.generators],
            "updates": self.model.updates,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        load_learner_state(self.model.learner, state["learner"])
        sums = require_like(state["sums"], self._zeros(), "sums")
        self.sums = {name: tensor.to(self.model.device) for name, tensor in sums.items()}
        for member, drawn in zip(self.model.generators, state["activations"], strict=True):
            member.set_state(drawn)
        self.model.updates = state["updates"]


def build(settings: VisionSettings) -> VisionWork:
    """Return the stream and the networks of these settings. This resolves `--compile auto`.

    Raises UsageError or ValueError if the settings cannot work."""
    data = load(settings.dataset, settings.data)
    stream = Stream(settings, data)
    if settings.compile == "auto":
        long = stream.tasks[-1].end >= COMPILE_PAYS_AFTER
        plain = settings.stacked and not settings.shock_every and settings.device == "cpu"
        settings.compile = "on" if long and plain and can_compile() else "off"
    if settings.compile == "on":
        if settings.shock_every:
            raise UsageError("--compile on does not go with --shock-every: the factor is not part of the graph")
        if not can_compile():
            raise UsageError("--compile on: torch.compile does not work here (it needs a C++ compiler)")
    return VisionWork(settings, stream, Model(settings, data, stream.classes, settings.device))
