"""Shocks: for one epoch in `every`, all pre-activations are multiplied by a factor.

Source: Lillo & Cheney 2025, arXiv 2509.22562, Appendix D."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from .model import Model


class Shock:
    """A factor on all inputs of a model's activations, z ← γ·z, in training and in tests.

    γ is 1 except in every `every`-th epoch of a task (not its first). There it is the next of `factors`, in turn over
    the whole stream.
    """

    def __init__(self, model: Model, factors: Sequence[float], every: int) -> None:
        self.factors, self.every = factors, every
        self.gamma = 1.0

        def scale(_unit: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
            if self.gamma == 1.0:
                return None
            return (inputs[0] * self.gamma, *inputs[1:])

        for unit in model.learner.units:  # a function: a method's object would be copied where a head is (injection)
            model.network.get_submodule(unit).register_forward_pre_hook(scale)

    def set(self, epoch: int, before: int = 0) -> None:
        """Set the epoch of the task. `before`: the number of shocks in earlier tasks."""
        shocked = epoch > 0 and epoch % self.every == 0
        self.gamma = self.factors[(before + epoch // self.every - 1) % len(self.factors)] if shocked else 1.0
