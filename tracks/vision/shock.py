"""Shocks: for one epoch in so many, all pre-activations are multiplied by a factor (paper 002, Appendix D)."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from .model import Model


class Shock:
    """Scales what goes into the activations of a model: z ← γ·z, in training and in tests alike.

    γ is 1 but for every `every`-th epoch of a task (not its first), when it is the next of `factors`, in turn over
    the whole stream.
    """

    def __init__(self, model: Model, factors: Sequence[float], every: int) -> None:
        self.factors, self.every = factors, every
        self.gamma = 1.0
        for unit in model.learner.units:
            model.network.get_submodule(unit).register_forward_pre_hook(self._scale)

    def set(self, epoch: int, before: int = 0) -> None:
        """From now on it is this epoch of a task; `before`: the shocks in earlier tasks."""
        shocked = epoch > 0 and epoch % self.every == 0
        self.gamma = self.factors[(before + epoch // self.every - 1) % len(self.factors)] if shocked else 1.0

    def in_task(self, epochs: int) -> int:
        """The shocks in a task of so many epochs."""
        return max(0, epochs - 1) // self.every

    def _scale(self, _unit: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self.gamma == 1.0:
            return None
        first: Tensor = inputs[0]
        return (first * self.gamma, *inputs[1:])
