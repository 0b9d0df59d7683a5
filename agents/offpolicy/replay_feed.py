"""Buffers that carry sampled batches from the replay memory to the network."""

import torch

from supple.agents.draws import Draws

from .layout import Sample
from .replay import ReplayMemory


class ReplayFeed:
    """A sampler that draws batches into reused buffers.

    On a CPU there is one buffer, from which the network reads. For a GPU there are two page-locked buffers, used
    alternately. The copy to the GPU is asynchronous, and a buffer is filled again only after its copy has finished.
    """

    def __init__(self, memory: ReplayMemory, device: torch.device) -> None:
        self.memory, self.device = memory, device
        self._buffers: list[torch.Tensor] = []
        self._copied: list[torch.cuda.Event] = []
        self._turn = 0

    def __call__(self, size: int, draws: Draws) -> Sample:
        """Return `size` random transitions of each member on the network's device. They are valid until the next call.

        Args:
            size: The number of transitions.
            draws: Draws them, as in `ReplayMemory.sample`.
        """
        rows = max(self.memory.members, 1) * size
        if not self._buffers or len(self._buffers[0]) < rows:
            self._allocate(size)
        if self.device.type == "cpu":
            return self.memory.sample(size, draws, out=self._buffers[0][:rows])
        turn = self._turn = 1 - self._turn
        self._copied[turn].synchronize()
        sample = self.memory.sample(size, draws, out=self._buffers[turn][:rows])
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
