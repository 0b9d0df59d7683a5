"""The parts of an update: the gradients of a loss, as one function that can be compiled, and a step along them.

On a GPU, an update is recorded once as a CUDA graph, and replayed without the kernel launches that dominate small
networks."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from supple.engine.hooks.driver import HookDriver
from supple.interventions import Learner
from supple.networks.optimizers import clip_, match_layout, step
from supple.networks.unit_vectors import project_

WARM_UP = 3  # eager calls on a side stream before recording, as PyTorch requires; they create Adam's state


def differentiate(
    loss: Callable[..., tuple[Tensor, Tensor]], parameters: Sequence[Tensor], *inputs: Any
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return the loss and the constant that `loss(*inputs)` returns, (*stack,), and the gradients of the loss.

    In a stack, they are those of the sum over the members, of which each has its own parameters. Gradients have the
    memory layout of their parameters (see `match_layout`)."""
    value, constant = loss(*inputs)
    gradients = torch.autograd.grad(value, parameters, torch.ones_like(value))
    laid_out = [match_layout(p, gradient) for p, gradient in zip(parameters, gradients, strict=True)]
    return value.detach(), constant, laid_out


def take_step(
    learner: Learner, parameters: Sequence[Tensor], gradients: Sequence[Tensor | None], hooks: HookDriver | None = None,
    max_norm: float = 0.0, projected: Sequence[nn.Module] = (),
) -> None:  # fmt: skip
    """Make a step of a learner's optimizer, with the penalties of its hooks and what they do before and after.

    Args:
        learner: The learner.
        parameters: Those that are trained.
        gradients: Theirs, or None for one that rests.
        hooks: Act on the learner.
        max_norm: The gradient norm of each member above which gradients are clipped. 0: no clipping.
        projected: The layers that are projected afterwards (see `networks.unit_vectors`).
    """
    assert learner.optimizer is not None
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    if hooks and hooks.penalizes and (penalty := hooks.penalty(learner)).requires_grad:
        penalty.backward()
    if max_norm:
        clip_(parameters, max_norm, bool(learner.seeds))
    if hooks:
        hooks.before_update(learner)
    step(learner.optimizer)
    if hooks:
        hooks.after_update(learner)
    project_(projected)


class UpdateGraph:
    """A function `learn(*tensors)` that is recorded once for each set of shapes and each phase.

    The types must not change.

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
        self._graphs: dict[tuple[Any, ...], tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}
        self._calls: dict[tuple[Any, ...], int] = {}

    def __call__(self, *tensors: Tensor, structure: int, phase: int = 0) -> None:
        """Learn from the tensors.

        Args:
            tensors: The arguments of `learn`.
            structure: A number that changes whenever parameters are added or removed.
            phase: Which of several computations `learn` makes now.
        """
        if structure != self.structure:
            self._graphs, self._calls, self.structure = {}, {}, structure
        shapes = (phase, *(tensor.shape for tensor in tensors))
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
