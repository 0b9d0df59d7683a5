"""CUDA graphs: an update is recorded once and replayed, without the kernel launches that dominate small networks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

WARM_UP = 3  # eager calls on a side stream before recording, as PyTorch requires; they create Adam's state


class UpdateGraph:
    """A function `learn(*tensors)` that is recorded once for each set of shapes. The types must not change.

    The graph reads and writes the memory of parameters, optimizer state and target network, so that the next replay
    sees in-place changes by interventions. An intervention that changes the architecture (plasticity injection) changes
    `structure`, and all graphs are recorded again. The calls before a recording are ordinary updates, so nothing is
    learned twice.
    """

    def __init__(self, learn: Callable[..., None], draws: Sequence[torch.Generator] = ()) -> None:
        """Record nothing yet.

        Args:
            learn: The function.
            draws: The generators on the GPU from which it draws, besides PyTorch's own.
        """
        self.learn, self.draws = learn, draws
        self.structure = -1
        self._graphs: dict[tuple[torch.Size, ...], tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}
        self._calls: dict[tuple[torch.Size, ...], int] = {}

    def __call__(self, *tensors: Tensor, structure: int) -> None:
        """Learn from the tensors.

        Args:
            tensors: The arguments of `learn`.
            structure: A number that changes whenever parameters are added or removed.
        """
        if structure != self.structure:
            self._graphs, self._calls, self.structure = {}, {}, structure
        shapes = tuple(tensor.shape for tensor in tensors)
        if shapes in self._graphs:
            graph, inputs = self._graphs[shapes]
            for ours, theirs in zip(inputs, tensors, strict=True):
                ours.copy_(theirs, non_blocking=True)
            graph.replay()
            return
        if (calls := self._calls.get(shapes, 0)) < WARM_UP:
            self._calls[shapes] = calls + 1
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.learn(*tensors)
            torch.cuda.current_stream().wait_stream(side)
            return
        inputs = [tensor.clone() for tensor in tensors]
        graph = torch.cuda.CUDAGraph()
        for source in self.draws:
            graph.register_generator_state(source)
        with torch.cuda.graph(graph):
            self.learn(*inputs)
        self._graphs[shapes] = graph, inputs
        graph.replay()  # recording alone computes nothing
