"""DASH shrinks weights that point away from the direction in which the loss would move them.

    g ← (1 − α)·g + α·(−∇L)   over the batches of one pass, from 0
    w ← w·clamp(cos(g, w), λ, 1)

Weights that the present data would make larger keep their length. Others shrink, by a factor of λ at least. The vector
w is the kernel of one (output, input) pair of channels, a row of a linear layer, or the whole bias vector of a layer.
The cosine of a zero vector is 0, so weights shrink by λ if no sample has a gradient (a dead unit). Parameters without
a gradient from these data (another task's head) and normalisation layers are unchanged. Gradients are those of the mean
training loss of a batch, separately for each member of a stack. In RL each network has its own loss, and a replay
memory has no last batch, so `batches` must be given.

Source: Shin et al. 2024, "DASH: Warm-starting neural network training in stationary settings without loss of
plasticity" (arXiv 2410.23495).

Resets: contract `uniform` (optimizer state of the rewritten tensors zeroed, target networks := online network).

Cost: the gradients of one pass, and a moving average of them, which is one more tensor per parameter.

Released code: it also shrinks biases, as here; the paper speaks of weights only.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from supple.networks import Learner, Scope, no_batches, unchanged
from supple.networks.members import own_axes
from supple.networks.modules import CONV
from supple.networks.ranks import average

from .base import Reinitialization, check_within, interventions


@dataclass(frozen=True)
class EndlessData:
    """A capability: a pass over the learner's data never ends, as over a replay memory."""


@interventions.register("dash")
class Dash(Reinitialization):
    """Shrink weights that point away from the direction in which the loss would move them (Shin et al. 2024).

    Args:
        alpha: α in (0, 1], weight of the newest gradient; the FIRE paper uses 0.1 or 0.3.
        lam: λ in [0, 1], the smallest factor; it uses 0.05, 0.1 or 0.3 (Appendix E).
        batches: Number of batches used. If None, one pass over the present data; a learner with a replay memory needs a
            number.
        scope: The layers whose parameters shrink.
    """

    def __init__(self, alpha: float = 0.3, lam: float = 0.05, batches: int | None = None, scope: Scope = "all") -> None:
        super().__init__(scope, "uniform")
        check_within("dash", alpha=(alpha, "(0, 1]"), lam=(lam, "[0, 1]"), batches=(batches, "[1, ∞)"))
        self.alpha, self.lam, self.batches = alpha, lam, batches

    def attach(self, learner: Learner) -> None:
        super().attach(learner)
        learner.check_trained("dash")
        learner.select_stored(self.scope)
        if learner.batches is no_batches:
            raise ValueError(f"dash: '{learner.name}' provides no batches; set Learner.batches")
        if self.batches is None and learner.offers(EndlessData) is not None:
            raise ValueError(f"dash: '{learner.name}' learns from a replay memory; give a number, such as batches=100")

    def rewrite(self, module: nn.Module, learner: Learner, start: Mapping[str, Tensor], scope: Scope) -> list[str]:
        layers = learner.select(scope)
        parameters = {name: module.get_parameter(name) for name in learner.parameters_of(layers)}
        uphill = self._gradients(learner, list(parameters.values()))
        axes = {
            layer.weight_name: (0,)  # of transformers' Conv1D, whose weight is (d_in, d_out)
            if layer.transposed
            else own_axes(layer)[2 if isinstance(layer.module, CONV) else 1 :]
            for layer in layers
        }
        written = []
        with torch.no_grad():
            for (name, parameter), gradient in zip(parameters.items(), uphill, strict=True):
                if gradient is not None:
                    shrink_(parameter, gradient, self.lam, axes.get(name, (-1,)))
                    written.append(name)
        return written

    def _gradients(self, learner: Learner, parameters: list[Tensor]) -> list[Tensor | None]:
        """Return −g, the moving average of the gradients, or None for parameters without a gradient."""
        moving: dict[int, Tensor] = {}
        with unchanged(learner.module):  # running statistics would move, and tie the samples of a batch together
            for losses in learner.batches(self.batches):
                gradients = torch.autograd.grad(losses.mean(-1).sum(), parameters, allow_unused=True)
                reached = {i: gradient for i, gradient in enumerate(gradients) if gradient is not None}
                for i in reached.keys() - moving.keys():
                    moving[i] = torch.zeros_like(parameters[i])
                torch._foreach_lerp_([moving[i] for i in reached], list(reached.values()), self.alpha)
        return average([moving.get(i) for i in range(len(parameters))])


@torch.no_grad()
def shrink_(weight: Tensor, uphill: Tensor, lam: float, axes: tuple[int, ...]) -> None:
    """Shrink vectors in place: w ← w·clamp(cos(−uphill, w), λ, 1).

    Args:
        weight: (…), the vectors w along `axes`.
        uphill: The gradient, of the shape of `weight`.
        lam: λ in [0, 1], the smallest factor.
        axes: The axes of one vector.
    """
    product = (weight * uphill).sum(axes, keepdim=True)
    lengths = [torch.linalg.vector_norm(vectors, dim=axes, keepdim=True) for vectors in (weight, uphill)]
    cosine = (-product / (lengths[0] * lengths[1])).nan_to_num_(0.0)
    weight.mul_(cosine.clamp_(lam, 1.0))
