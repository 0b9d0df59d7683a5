"""Continual learning: one model trained on task after task, with adapters that each task adds to, or without."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from supple.engine.seeding import generator
from supple.engine.work import Numbers, Task
from supple.interventions import Learner
from supple.networks import evaluating
from supple.tracks.language.adapters import Adapter, adapters, add_task, maker, penalty, save_adapters, wrap
from supple.tracks.language.models import model_type
from supple.tracks.language.schedule import cosine_rate
from supple.tracks.supervised import SupervisedWork

from .atom_mass import prune_unused, write_maps
from .settings import ContinualSettings

if TYPE_CHECKING:
    from supple.tracks.language.images.xtail import ImageStream

    from .text import TextStream


def build(settings: ContinualSettings) -> "ContinualWork":
    """Return the model, its adapters and its tasks. Raises UsageError if the settings cannot work."""
    settings.check_hooks()
    if is_image_model(settings.model):
        from supple.tracks.language.images.xtail import image_stream

        return ContinualWork(settings, image_stream(settings))
    from .text import text_stream

    return ContinualWork(settings, text_stream(settings))


def is_image_model(name: str) -> bool:
    """Return whether a model is an image–text model: a new one, `clip:…`, or a folder or hub model of this type."""
    return name.startswith("clip:") or model_type(name) == "clip"


class ContinualWork(SupervisedWork):
    """One model, trained on all tasks of a stream.

    With adapters, all other weights are frozen, and checkpoints do not contain them. They contain the adapters, the
    slots of their optimizer, and the state of hooks. With `full`, they contain everything. A task begins with new
    adapters, if the method adds any, and with a new optimizer.

    In tasks.jsonl, `scores` is a row of A[i, j], the score of every task after this one. The first row also has
    `before`, the scores before any task. The logged training loss includes the penalty of an adapter, but not those of
    hooks.
    """

    settings: ContinualSettings
    batch = ("batch_size",)
    best_by, more_is_better = "score", True

    def __init__(self, settings: ContinualSettings, stream: "TextStream | ImageStream") -> None:
        order = settings.permutation(len(stream.names))
        lengths = [settings.updates(place, stream.updates_per_epoch(i)) for i, place in enumerate(order)]
        ends = pairwise([0, *accumulate(lengths)])
        super().__init__(settings, [Task(i, *span, stream.names[i]) for i, span in enumerate(ends)])
        self.no_best = "scores of different tasks cannot be compared: train on one task" * (len(order) > 1)
        self.stream, self.model = stream, stream.model
        self.has_adapters = settings.method != "full"  # all other weights are then frozen
        self.sources, self.hooks = dict(stream.sources), settings.own_hooks
        self.before: list[float] | None = None
        self.masses: dict[str, Tensor] = {}  # of atoms, by layer, where they are pruned
        layers, frozen = stream.layers, set[str]()
        if self.has_adapters:
            wrap(self.model, settings.layers, maker(settings.kind, **settings.adapter))
            self._add_task(0)
            own = {f"{name}.{entry}" for name, a in adapters(self.model).items() for entry in a.tensors()}
            frozen = set(self.model.state_dict()) - own
            layers = tuple(replace(layer, module=self.model.get_submodule(layer.name)) for layer in layers)
        self.unwritten = frozen  # names in the model's state of what is never written
        self.penalized = any(type(a).penalty is not Adapter.penalty for a in adapters(self.model).values())
        self.learner = Learner(
            "model",
            self.model,
            self._optimizer(),
            layers,
            stream.units,
            probe=lambda: stream.inputs(self.place[0].index, self.place[1]),
            loss=lambda: stream.loss(self.place[0].index, self.place[1]),
            generator=generator(settings.seed, "hooks"),
            redraw=dict,  # a pre-trained model has no fresh draw: what it began with stands for it
            batches=self._batches,
            initial=self._initial_values({}),
            features=stream.features,
            unwired=dict.fromkeys(stream.units if self.has_adapters else (), "lies between layers with adapters"),
        )

    # -- training -----------------------------------------------------------------------------------------------

    def loss(self, task: Task, update: int, part: int) -> Tensor:
        loss = self.stream.loss(task.index, update)
        return loss + penalty(self.model) if self.penalized else loss

    def rate(self, task: Task, update: int) -> float:
        constant = self.settings.schedule == "constant"
        return 1.0 if constant else cosine_rate(update, task.steps, warmup=0, cooldown=0, floor=0.0)

    def accumulating(self, part: int) -> AbstractContextManager[Any]:
        return self.settings.autocast()

    def enter(self, task: Task) -> None:
        super().enter(task)
        if task.index == 0:  # as it was built
            return
        if self.has_adapters:
            before = self.learner.trained()
            self._add_task(task.index)
            trained = self.learner.trained()
            new = {name: p.detach().clone() for name, p in trained.items() if before.get(name) is not p}
            self.learner.initial = self._initial_values({**self.learner.initial, **new})
            self.learner.renewed |= dict.fromkeys(new, task.index)  # what was remembered under that name is another's
        self.learner.optimizer = self._optimizer()

    def _add_task(self, index: int) -> None:
        add_task(self.model, generator(self.settings.seed, "adapters", index))

    def _optimizer(self) -> torch.optim.AdamW | None:
        """Return a new AdamW over the trained parameters, or None if pruning left nothing of the task that ended.

        The paper gives no weight decay, and no parameters without it."""
        s = self.settings
        trained = [p for p in self.model.parameters() if p.requires_grad]
        if not trained:
            return None
        return torch.optim.AdamW(trained, lr=s.learning_rate, weight_decay=s.weight_decay, fused=True)

    def _batches(self, count: int | None) -> Iterator[Tensor]:
        task, update = self.place
        for i in range(self.stream.updates_per_epoch(task.index) if count is None else count):
            with self.settings.autocast():
                losses = self.stream.losses(task.index, update + i)
            yield losses

    # -- how well it does ---------------------------------------------------------------------------------------

    def scores(self) -> list[float]:
        """Return the current scores of all tasks, in their order, on all test data."""
        with evaluating(self.model), self.settings.autocast():
            return [self.stream.score(i) for i in range(len(self.tasks))]

    def examine(self, task: Task) -> dict[str, float]:
        if self.before is None:
            self.before = self.scores()
        with evaluating(self.model), self.settings.autocast():
            return {"score": self.stream.score(task.index, self.settings.eval_examples)}

    def finish(self, task: Task, numbers: Numbers) -> Numbers:
        line = super().finish(task, numbers) | ({"before": self.before} if task.index == 0 else {})
        if (keep := self.settings.prune) is not None:
            with self.settings.autocast():
                passes = self.stream.passes(task.index)
                self.masses, line["pruned"] = prune_unused(self.model, keep, self.masses, passes)
            kept = {name: p.detach().clone() for name, p in self.learner.trained().items()}
            self.learner.initial = self._initial_values({**self.learner.initial, **kept})
            self.learner.optimizer = self._optimizer()
        return {**line, "score_of": self.stream.scores[task.index], "scores": self.scores()}

    # -- checkpoints --------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        state = super().state()
        learner = state["learner"]
        for part in ("module", "initial"):
            learner[part] = {name: tensor for name, tensor in learner[part].items() if name not in self.unwritten}
        return {**state, "before": self.before, "masses": self.masses}

    def load_state(self, state: dict[str, Any]) -> None:
        now = {name: tensor for name, tensor in self.model.state_dict().items() if name in self.unwritten}
        learner = {**state["learner"], "module": {**now, **state["learner"]["module"]}}
        self.model.load_state_dict(learner["module"])
        self.learner.optimizer = self._optimizer()  # pruned adapters are other tensors than those just built
        super().load_state({**state, "learner": learner})
        self.learner.initial = self._initial_values(self.learner.initial)
        device = next(self.model.parameters()).device
        self.before, self.masses = state["before"], {name: mass.to(device) for name, mass in state["masses"].items()}

    def export(self, folder: Path) -> None:
        """Write the adapters, or the whole model if it has none."""
        if not self.has_adapters:
            self.stream.save(folder)
            return
        save_adapters(self.model, folder)
        if self.settings.activation_maps:
            write_maps(folder, self.model, self.stream.names, map(self.stream.passes, range(len(self.tasks))))

    def _initial_values(self, known: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the initial value of each parameter, in their order.

        A frozen parameter without a copy has its current value."""
        return {
            name: known[name] if name in known else p.detach().clone() if p.requires_grad else p.detach()
            for name, p in self.model.named_parameters()
        }
