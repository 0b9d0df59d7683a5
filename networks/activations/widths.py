"""Activations whose numbers of features and pre-activations differ; the layers around them are sized accordingly."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .base import Activation, activations


class Paired(Activation):
    """Two features from each pre-activation, of which a layer has half its width (Lillo & Cheney, Appendix B.3).

    The number of features is the layer's width. The layer before has half the weights, the layer after as many as
    usual.
    """

    name = ""

    def preactivations(self, width: int) -> int:
        if width % 2:
            raise ValueError(f"{self.name} makes two features of each pre-activation: an even width, not {width}")
        return width // 2


@activations.register("crelu")
class CReLU(Paired):
    """[max(x, 0), max(−x, 0)], concatenated along the features (Shang et al. 2016), capacity-neutral.

    One of the two passes the gradient for any x: floor 1 for both together.
    """

    name = "crelu"

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.relu(), (-x).relu()], self.axis)


@activations.register("deep_fourier")
class DeepFourier(Paired):
    """[sin x, cos x], concatenated along the features (Lewandowski et al. 2024), capacity-neutral.

    If one is flat the other is steepest, sin′² + cos′² = 1: floor 1 for both together.
    """

    name = "deep_fourier"

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.sin(), x.cos()], self.axis)


@activations.register("swiglu")
class SwiGLU(Activation):
    """swish(gate)·value, the pre-activations' two halves (Shazeer 2020), capacity-neutral by Shazeer's rule of 2/3.

    A layer of width w has round(2w/3) features, each of two pre-activations: between layers of equal widths in and
    out, 3·(2/3) matrices weigh as much as 2. In a chain of hidden layers, whose widths all shrink, it is 8/9 of the
    weights between two of them, and 4/3 of the first layer's. Floor 0: a gate far to the left closes for its value.
    """

    def preactivations(self, width: int) -> int:
        return 2 * self.features(width)

    def features(self, width: int) -> int:
        return max(1, round(2 * width / 3))

    def inputs(self, x: Tensor) -> Tensor:
        """Return gates x with the value 1: swish; E[value²] = 1, so that its gain is that of the gated product."""
        return torch.stack([x, torch.ones_like(x)], -1)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = x.chunk(2, self.axis)
        return F.silu(gate) * value
