"""CUDA graphs: an update is recorded once and then replayed, without the launches that dominate small networks."""

from collections.abc import Callable

import torch

from .replay import Sample

WARM_UP = 3  # eager calls on a side stream before recording, as PyTorch asks for: Adam's slots exist then


class Captured:
    """`learn(sample)`, recorded for each size of sample.

    The graph reads and writes the very memory of parameters, optimizer slots and target network, so whatever an
    intervention writes there in place is seen by the next replay. One that changes the architecture (plasticity
    injection) changes `structure`, and everything is recorded anew. The calls before a recording are ordinary
    updates, so nothing is learned twice.
    """

    def __init__(self, learn: Callable[[Sample], None]) -> None:
        self.learn = learn
        self.structure = -1
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Sample]] = {}
        self._calls: dict[int, int] = {}

    def __call__(self, sample: Sample, structure: int) -> None:
        """Learn from the sample. structure: changes whenever parameters were added or taken away."""
        if structure != self.structure:
            self._graphs, self._calls, self.structure = {}, {}, structure
        size = len(sample.actions)
        if size in self._graphs:
            graph, inputs = self._graphs[size]
            for ours, theirs in zip(inputs, sample, strict=True):
                ours.copy_(theirs, non_blocking=True)
            graph.replay()
            return
        if (calls := self._calls.get(size, 0)) < WARM_UP:
            self._calls[size] = calls + 1
            self._on_side_stream(sample)
            return
        inputs = Sample(*(tensor.clone() for tensor in sample))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.learn(inputs)
        self._graphs[size] = graph, inputs
        graph.replay()  # recording computes nothing

    def _on_side_stream(self, sample: Sample) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.learn(sample)
        torch.cuda.current_stream().wait_stream(side)
