"""Sampled batches on their way from the memory to the network."""

import torch

from .replay import ReplayMemory, Sample


class Feed:
    """Draws batches into buffers that are used again and again.

    On a CPU there is one, from which the network reads. For a GPU there are two, page-locked and taken in turn:
    the copy runs while the CPU goes on, and a buffer is filled again only when its own copy is done.
    """

    def __init__(self, memory: ReplayMemory, device: torch.device) -> None:
        self.memory, self.device = memory, device
        self._buffers: list[torch.Tensor] = []
        self._copied: list[torch.cuda.Event] = []
        self._turn = 0

    def __call__(self, size: int, generator: torch.Generator) -> Sample:
        """Draw `size` transitions, on the network's device, valid until the next call."""
        if not self._buffers or len(self._buffers[0]) < size:
            self._allocate(size)
        if self.device.type == "cpu":
            return self.memory.sample(size, generator, out=self._buffers[0][:size])
        turn = self._turn = 1 - self._turn
        self._copied[turn].synchronize()
        sample = self.memory.sample(size, generator, out=self._buffers[turn][:size])
        moved = Sample(*(tensor.to(self.device, non_blocking=True) for tensor in sample))
        self._copied[turn].record()
        return moved

    def _allocate(self, size: int) -> None:
        if self.device.type == "cpu":
            self._buffers = [self.memory.buffer(size)]
        else:
            torch.cuda.synchronize()
            self._buffers = [self.memory.buffer(size, pin_memory=True) for _ in range(2)]
            self._copied = [torch.cuda.Event() for _ in range(2)]
