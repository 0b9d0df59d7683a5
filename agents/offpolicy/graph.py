"""CUDA graphs: an update is recorded once and then replayed, without the launches that dominate small networks."""

from collections.abc import Callable

import torch
from torch import Tensor

WARM_UP = 3  # eager calls on a side stream before recording, as PyTorch asks for: Adam's slots exist then


class Captured:
    """`learn(*tensors)`, recorded for each of the tensors' shapes; their types never change.

    The graph reads and writes the very memory of parameters, optimizer slots and target network, so whatever an
    intervention writes there in place is seen by the next replay. One that changes the architecture (plasticity
    injection) changes `structure`, and everything is recorded anew. The calls before a recording are ordinary
    updates, so nothing is learned twice.
    """

    def __init__(self, learn: Callable[..., None]) -> None:
        self.learn = learn
        self.structure = -1
        self._graphs: dict[tuple[torch.Size, ...], tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}
        self._calls: dict[tuple[torch.Size, ...], int] = {}

    def __call__(self, *tensors: Tensor, structure: int) -> None:
        """Learn from the tensors. structure: changes whenever parameters were added or taken away."""
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
            self._on_side_stream(tensors)
            return
        inputs = [tensor.clone() for tensor in tensors]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.learn(*inputs)
        self._graphs[shapes] = graph, inputs
        graph.replay()  # recording computes nothing

    def _on_side_stream(self, tensors: tuple[Tensor, ...]) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.learn(*tensors)
        torch.cuda.current_stream().wait_stream(side)
