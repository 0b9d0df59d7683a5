"""Activations whose numbers of features and pre-activations differ; the layers around them are sized accordingly."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .base import Activation, activations


class TwoFeatures(Activation):
    """An activation with two features from each pre-activation (Lillo & Cheney, Appendix B.3).

    The layer's width is its number of features, so there are half as many pre-activations. The layer before therefore
    has half the usual number of weights, and the layer after has the usual number.
    """

    name = ""

    def preactivations(self, width: int) -> int:
        if width % 2:
            raise ValueError(f"{self.name} makes two features of each pre-activation: an even width, not {width}")
        return width // 2


@activations.register("crelu")
class CReLU(TwoFeatures):
    """[max(x, 0), max(−x, 0)], concatenated along the features (Shang et al. 2016), capacity-neutral.

    One of the two passes the gradient for any x: floor 1 for both together.
    """

    name = "crelu"

    def forward(self, x: Tensor) -> Tensor:
        """Return two features of each pre-activation: (…, n) → (…, 2n), along `axis`."""
        return torch.cat([x.relu(), (-x).relu()], self.axis)


@activations.register("deep_fourier")
class DeepFourier(TwoFeatures):
    """[sin x, cos x], concatenated along the features (Lewandowski et al. 2024), capacity-neutral.

    Where one is flat, the other is steepest, because sin′² + cos′² = 1: floor 1 for both together.
    """

    name = "deep_fourier"

    def forward(self, x: Tensor) -> Tensor:
        """Return two features of each pre-activation: (…, n) → (…, 2n), along `axis`."""
        return torch.cat([x.sin(), x.cos()], self.axis)


@activations.register("swiglu")
class SwiGLU(Activation):
    """swish(gate)·value, where gate and value are the halves of the pre-activations (Shazeer 2020).

    A layer of width w has round(2w/3) features with two pre-activations each. This is Shazeer's capacity-neutral rule:
    in a block of two layers, three matrices of 2/3 of the size replace two. In a chain of hidden layers, all of which
    become narrower, there are 8/9 as many weights between two layers and 4/3 as many in the first one. Floor 0: where
    the gate is very negative, no gradient reaches the value.
    """

    def preactivations(self, width: int) -> int:
        return 2 * self.features(width)

    def features(self, width: int) -> int:
        return max(1, round(2 * width / 3))

    def inputs(self, x: Tensor) -> Tensor:
        """Return gates x with the value 1, (n,) → (n, 2), which gives swish.

        Its gain is that of the gated product, because E[value²] = 1.
        """
        return torch.stack([x, torch.ones_like(x)], -1)

    def forward(self, x: Tensor) -> Tensor:
        """Return one feature of each two pre-activations: (…, 2n) → (…, n), along `axis`."""
        gate, value = x.chunk(2, self.axis)
        return F.silu(gate) * value
