"""The batches of one task: the images that each member sees at each update."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from .task_data import Images, ImageTask, Stream

PROBE = 256  # images that metrics look at


class ImageFeed:
    """The batches of a task, cut from an endless sequence of shuffled epochs.

    All batches have the same size. With a replay memory, a batch has as many images of earlier tasks as of this one."""

    def __init__(self, stream: Stream, task: ImageTask, device: str) -> None:
        self.stream, self.task = stream, task
        self.images = stream.train(task).to(device)
        self.size = stream.settings.batch_size
        self.update = 0  # of the task: the next batch
        self._epochs: dict[int, Tensor] = {}
        self._memory = self._fill_memory(device)

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return the images (members, n, c, h, w) uint8 and labels (members, n) of the next update.

        The images of the task come first, then those of the memory."""
        images, labels = self._task_batch(self.update)
        if self._memory is not None:
            draw = partial(torch.randint, self._memory.size, (self.size,))
            picks = self.stream.draw(draw, "replay", self.task.index, self.update)
            old_images, old_labels = self._memory.read(self._memory.choose(picks.to(self._memory.chosen.device)))
            images, labels = torch.cat([images, old_images], 1), torch.cat([labels, old_labels], 1)
        self.update += 1
        return images, labels

    def last(self) -> tuple[Tensor, Tensor]:
        """Return the task's images in the batch of the last update, or of the first one before any update."""
        return self._task_batch(max(0, self.update - 1))

    def probe(self) -> tuple[Tensor, Tensor]:
        """Return the first images of the task, of which metrics are computed."""
        return self.images.between(0, PROBE)

    def batches(self, count: int | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `count` batches from the next one on, or, if None, one epoch over the task's images.

        The feed does not advance.
        """
        if count is None:
            for start in range(0, self.images.size, self.size):
                yield self.images.between(start, start + self.size)
        else:
            for update in range(self.update, self.update + count):
                yield self._task_batch(update)

    def _task_batch(self, update: int) -> tuple[Tensor, Tensor]:
        """Return the task's images and labels in the batch of an update."""
        epoch, offset = divmod(update * self.size, self.task.size)
        parts, missing = [], self.size
        while missing:
            parts.append(self._epoch(epoch)[:, :, offset : offset + missing])
            missing -= parts[-1].shape[2]
            epoch, offset = epoch + 1, 0
        return self.images.read(torch.cat(parts, 2))

    def _epoch(self, epoch: int) -> Tensor:
        """Return the rows and the labels of the task's images in the order of an epoch, (2, members, task.size)."""
        if epoch not in self._epochs:
            self._epochs = {e: o for e, o in self._epochs.items() if e == epoch - 1}
            order = self.stream.order(self.task, epoch)
            self._epochs[epoch] = self.images.choose(order.to(self.images.chosen.device))
        return self._epochs[epoch]

    # -- memory -------------------------------------------------------------------------------------------------

    def _fill_memory(self, device: str) -> Images | None:
        """Return images of earlier tasks: an equal share of the memory for each, at most `replay_per_task`."""
        s, index = self.stream.settings, self.task.index
        if not s.replay or not index:
            return None
        count = min(s.replay_per_task, s.replay // index)
        kept = []
        for task in self.stream.tasks[:index]:
            picks = self.stream.draw(partial(torch.randperm, task.size), "memory", task.index)[:, :count]
            kept.append(self.stream.train(task).choose(picks))
        return Images(self.stream.data.train_images, torch.cat(kept, 2)).to(device)
