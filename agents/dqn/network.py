"""The Nature CNN (Mnih et al. 2015): three convolutions, then two linear layers."""

import torch
from torch import Tensor, nn

from ...interventions import Layer, Units

# (channels out, kernel, stride) of each convolution; no padding ("VALID"). Dopamine's network pads ("SAME") and
# flattens 11·11·64 units instead of 7·7·64: FIRE's released code and most PyTorch ports do not.
CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


def xavier_(layer: nn.Conv2d | nn.Linear, generator: torch.Generator) -> nn.Module:
    """Draw Xavier-uniform weights, set the bias to zero: the initialisation of FIRE's and Dopamine's DQN."""
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class NatureCNN(nn.Module):
    """Action values of stacked grey frames.

        frames (n, stack, H, W) uint8 → /255 → encoder: 3 × (convolution, activation), flatten
                                             → mlp: linear, activation, linear → (n, actions)

    Plasticity injection duplicates `mlp`. Weights and activations lie in memory channels last, in which a
    forward and a backward pass together are 1.5 to 1.6 times faster on a CPU; shapes are as ever.
    """

    def __init__(
        self,
        stack: int,
        height: int,
        width: int,
        actions: int,
        hidden: int,
        activation: str,
        generator: torch.Generator,
    ) -> None:
        """Raises ValueError for frames that the convolutions leave nothing of (less than 36 on a side)."""
        super().__init__()
        units = Units(activation)
        encoder: list[nn.Module] = []
        channels, sides = stack, [height, width]
        for out, kernel, stride in CONVOLUTIONS:
            convolution = nn.Conv2d(channels, units.preactivations(out), kernel, stride)
            encoder += [xavier_(convolution, generator), units(out, axis=-3)]
            channels, sides = units.features(out), [(side - kernel) // stride + 1 for side in sides]
        if min(sides) < 1:
            raise ValueError(f"frames of {height} × {width} are too small for the Nature CNN: 36 × 36 at least")
        self.encoder = nn.Sequential(*encoder, nn.Flatten())
        self.mlp = nn.Sequential(
            xavier_(nn.Linear(channels * sides[0] * sides[1], units.preactivations(hidden)), generator),
            units(hidden),
            xavier_(nn.Linear(units.features(hidden), actions), generator),
        )
        for convolution in (m for m in encoder if isinstance(m, nn.Conv2d)):
            convolution.weight.data = convolution.weight.contiguous(memory_format=torch.channels_last)

    def forward(self, frames: Tensor) -> Tensor:
        """Return action values (n, actions) of frames (n, stack, H, W) uint8."""
        x = frames.contiguous(memory_format=torch.channels_last).float().mul_(1 / 255)
        return self.mlp(self.encoder(x))

    def layers(self) -> tuple[Layer, ...]:
        """Return the three convolutions (encoder), the first linear layer (hidden) and the last (head)."""
        convolutions = [(f"encoder.{n}", m) for n, m in self.encoder.named_children() if isinstance(m, nn.Conv2d)]
        encoder = [Layer(name, module, "encoder", depth) for depth, (name, module) in enumerate(convolutions)]
        depth = len(encoder)
        return (*encoder, Layer("mlp.0", self.mlp[0], "hidden", depth), Layer("mlp.2", self.mlp[2], "head", depth + 1))

    def units(self) -> tuple[str, ...]:
        """Return names of the activations; the last one's outputs are called features."""
        return ("encoder.1", "encoder.3", "encoder.5", "mlp.1")
