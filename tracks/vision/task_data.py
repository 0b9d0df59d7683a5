"""A stream of tasks over one data set, for several seeds at once.

Every draw (subsets, permutations, labels, classes, orders) is determined by a member's seed and the position in the
stream. There is no generator with a state, so any task can be opened at any time, and a member sees the same data
whether it is trained alone or in a stack.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from supple.engine.seeding import generator
from supple.engine.work import Task
from supple.registry.errors import UsageError

from .data import DataSet
from .settings import VisionSettings


@dataclass(frozen=True)
class ImageTask(Task):
    """One task of the stream, named after the data set. size: number of training images."""

    size: int


@dataclass(frozen=True)
class Images:
    """Labelled images of every member: rows of `pixels` (n, …) uint8, with their labels in this task.

    chosen: the rows and the labels, (2, members, n). permutation: (members, pixels in an image), or None.
    """

    pixels: Tensor
    chosen: Tensor
    permutation: Tensor | None = None

    @property
    def size(self) -> int:
        return self.chosen.shape[2]

    def between(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return the images and labels at the positions start, start + 1, …, stop − 1, as many as there are."""
        return self.read(self.chosen[:, :, start:stop])

    def choose(self, positions: Tensor) -> Tensor:
        """Return the rows and the labels at these positions (members, k), (2, members, k)."""
        return self.chosen.gather(2, positions.expand(2, *positions.shape))

    def read(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the images (members, k, …) uint8 and labels (members, k) of these rows and labels (2, members, k)."""
        rows, labels = chosen
        images = self.pixels.index_select(0, rows.flatten()).unflatten(0, rows.shape)
        if self.permutation is not None:
            flat = images.flatten(2)
            images = flat.gather(2, self.permutation[:, None].expand_as(flat)).view_as(images)
        return images, labels

    def to(self, device: str) -> "Images":
        """Return these images on a device."""
        moved = None if self.permutation is None else self.permutation.to(device)
        return Images(self.pixels.to(device), self.chosen.to(device), moved)


class Stream:
    """The stream of tasks that the settings describe, on a data set, for `settings.members`."""

    def __init__(self, settings: VisionSettings, data: DataSet) -> None:
        self.settings, self.data = settings, data
        self.classes = {"pairs": 2}.get(settings.stream, data.num_classes)
        self._by_class = _rows_by_class(data.train_labels, data.num_classes)
        self._test_by_class = _rows_by_class(data.test_labels, data.num_classes)
        self._check()
        # of each class, where tasks are made of classes: the same number, whichever a member's seed deals out
        smallest, self._test_each = (min(map(len, rows)) for rows in (self._by_class, self._test_by_class))
        self._each = settings.images_per_class or smallest
        self.tasks = self._plan()

    def _check(self) -> None:
        s, d = self.settings, self.data
        if s.images is not None and s.images > len(d.train_labels):
            raise UsageError(f"--images {s.images}: {d.name} has {len(d.train_labels)} training images")
        if s.by_class:
            if (needed := s.classes_between(s.tasks - 1)[1]) > d.num_classes:
                raise UsageError(
                    f"{s.tasks} tasks need {needed} classes that do not repeat, and {d.name} has {d.num_classes}: "
                    f"choose fewer --tasks"
                )
            fewest, needed_images = min(map(len, self._by_class)), s.images_per_class or 1
            if fewest < needed_images:
                raise UsageError(
                    f"--images-per-class {needed_images}: {d.name} has a class of {fewest} training images"
                )
            if not min(map(len, self._test_by_class)):
                raise UsageError(f"{d.name} has a class without test images")

    def _plan(self) -> tuple[ImageTask, ...]:
        s, tasks, start = self.settings, [], 0
        for index in range(s.tasks):
            size = self._size(index)
            if size < s.batch_size:
                raise UsageError(f"task {index} has {size} images, fewer than --batch-size {s.batch_size}")
            epochs = s.epochs if index or s.first_epochs is None else s.first_epochs
            updates = max(1, s.updates_per_task or round(epochs * size / s.batch_size))
            tasks.append(ImageTask(index, start, start + updates, s.dataset, size))
            start += updates
        return tuple(tasks)

    def _size(self, index: int) -> int:
        """Return the number of training images of a task. It is the same for all members, which are trained in step."""
        s, total = self.settings, len(self.data.train_labels)
        if s.stream in ("permuted", "random-labels"):
            return s.images or total
        if s.stream == "chunks":
            return round(s.shares[index] * total)
        first, last = s.classes_between(index)
        return (last - first) * self._each

    # -- what belongs to a task ---------------------------------------------------------------------------------

    def train(self, task: ImageTask) -> Images:
        """Return the training images of a task, (members, task.size)."""
        return self._open(self.data.train_images, self._train, task.index)

    def test(self, task: ImageTask) -> Images:
        """Return the images on which a task is tested: held-out images of its kind, as many of each of its classes.

        Random labels have no held-out images, so the task's own images are returned."""
        if self.settings.stream == "random-labels":
            return self.train(task)
        return self._open(self.data.test_images, self._test, task.index)

    def order(self, task: ImageTask, epoch: int) -> Tensor:
        """Return the order of a task's images in an epoch, which each member draws for itself: (members, task.size)."""
        return self.draw(partial(torch.randperm, task.size), "order", task.index, epoch)

    def draw(self, make: Callable[..., Tensor], *purpose: int | str) -> Tensor:
        """Return `make(generator=…)` of each member's generator for a purpose, (members, …)."""
        return torch.stack([make(generator=generator(seed, *purpose)) for seed in self.settings.members])

    def _open(self, pixels: Tensor, choose: Callable[[int, int], tuple[Tensor, Tensor]], index: int) -> Images:
        """Return the images that `choose(member, index)` names for each member by their rows and labels."""
        chosen = [torch.stack(choose(member, index)) for member in range(len(self.settings.members))]
        permutation = None
        if self.settings.stream == "permuted":
            permutation = self.draw(partial(torch.randperm, pixels[0].numel()), "permutation", index)
        return Images(pixels, torch.stack(chosen, 1), permutation)

    def _train(self, member: int, index: int) -> tuple[Tensor, Tensor]:
        s, seed, labels = self.settings, self.settings.members[member], self.data.train_labels
        if s.by_class:
            classes = self.classes_of(member, index)
            draws = [generator(seed, "rows", c) for c in classes]
            of_each = [self._by_class[c] for c in classes]  # of which as many of each class are taken
            parts = [r[torch.randperm(len(r), generator=g)[: self._each]] for r, g in zip(of_each, draws, strict=True)]
            rows = torch.cat(parts)[torch.randperm(sum(map(len, parts)), generator=draws[0])]
            return rows, self._relabel(classes, labels[rows])
        purpose = "chunks" if s.stream == "chunks" else "subset"
        rows = torch.randperm(len(labels), generator=generator(seed, purpose))[: self._size(index)]
        if s.stream == "random-labels":
            return rows, torch.randint(self.data.num_classes, rows.shape, generator=generator(seed, "labels", index))
        return rows, labels[rows]

    def _test(self, member: int, index: int) -> tuple[Tensor, Tensor]:
        labels = self.data.test_labels
        if self.settings.stream in ("permuted", "chunks"):
            return torch.arange(len(labels)), labels
        classes = self.classes_of(member, index)
        rows = torch.cat([self._test_by_class[c][: self._test_each] for c in classes])
        return rows, self._relabel(classes, labels[rows])

    def classes_of(self, member: int, index: int) -> list[int]:
        """Return the classes of a task, in the order in which the member's seed deals them out."""
        s = self.settings
        dealt = torch.randperm(self.data.num_classes, generator=generator(s.members[member], "classes")).tolist()
        first, last = s.classes_between(index)
        return dealt[first:last]

    def _relabel(self, classes: list[int], labels: Tensor) -> Tensor:
        """Return labels as indices of outputs. With two outputs, the index is the class's position in the pair."""
        return (labels == classes[1]).long() if self.settings.stream == "pairs" else labels


def _rows_by_class(labels: Tensor, classes: int) -> Sequence[Tensor]:
    return labels.argsort(stable=True).split(torch.bincount(labels, minlength=classes).tolist())
