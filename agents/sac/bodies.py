"""The bodies of SAC's networks, each as a single network or as a stack.

    mlp        linear → normalisation → activation, as often as there are widths in --hidden
    simba      linear → residual blocks → layer normalisation                             Lee et al. 2025a
    simba_v2   unit rows, ℓ2-normalised features, interpolating blocks with scalers       Lee et al. 2025b
    flash      unit rows, batch normalisation in residual blocks → RMS normalisation      FlashSAC
    crossq     batch renormalisation of the inputs and after each activation              Bhatt et al. 2024

Images are read by convolutions before these. The actor and each critic have convolutions of their own, trained by their
own loss. In Stable-Baselines3, which also separates actor and critics, the critics share theirs. DrQ (Kostrikov et al.
2021) has one set for actor and critics, which only the critics' loss trains.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from supple.agents.encoders import Convolution, Convolutions, OwnNetwork
from supple.interventions import StackedLayerNorm, StackedLinear, Units
from supple.networks import Normalization, hidden_linear, hidden_norm
from supple.networks.batch_norm import BatchNorm
from supple.networks.unit_vectors import Scaler, UnitBatchNorm, UnitRMSNorm, normalize, shift, unit_linear

EPSILON = 1e-6  # of SimBa's layer normalisation: Flax's default
TRUNCATED = 0.87962566  # standard deviation of N(0, 1) truncated at ±2
SHIFT = 3.0  # the number that SimBaV2 appends to its inputs, `c_shift` of configs/agent/simbaV2.yaml
POSITIVE = 1e-8  # what SimBaV2's code adds to activations, so that not all are 0
WARM_UP = 100_000  # training passes before CrossQ's normalisations renormalise, as in its code
RENORM_EPSILON = 1e-3  # of these

Draw = Callable[[Tensor], object]  # writes new values into one weight matrix


def orthogonal(generator: torch.Generator) -> Draw:
    return lambda weight: nn.init.orthogonal_(weight, generator=generator)


def he_normal(generator: torch.Generator, gain: float = 2.0) -> Draw:
    """Return Flax's `he_normal`, or its `lecun_normal` for a gain of 1.

    It is N(0, gain/d_in), truncated at two standard deviations and scaled to keep its variance."""

    def draw(weight: Tensor) -> None:
        std = math.sqrt(gain / weight.shape[1]) / TRUNCATED
        nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std, generator=generator)

    return draw


def uniform(generator: torch.Generator) -> Draw:
    """Return an initialiser that draws from U(±1/√d_in), PyTorch's default for the weights of Linear layers."""
    return lambda weight: nn.init.uniform_(
        weight, -(weight.shape[1] ** -0.5), weight.shape[1] ** -0.5, generator=generator
    )


def make_linear(
    d_in: int, d_out: int, members: int, draw: Draw, normalization: Normalization = "none"
) -> nn.Linear | StackedLinear:
    """Return a Linear layer, or a stack of them, (n, d_in) → (n, d_out) or (members, n, d_out), with zero biases.

    Args:
        d_in: Number of inputs.
        d_out: Number of outputs.
        members: Number of layers in the stack. 0: no stack.
        draw: Draws the weights of one layer.
        normalization: The normalisation of the layer (see `networks.normalization`).
    """
    layer = hidden_linear(d_in, d_out, normalization, members)
    initialise_(layer, draw)
    return layer


def initialise_(layer: nn.Linear | StackedLinear | Convolution, draw: Draw) -> None:
    """Draw the weights of a layer as a matrix, or those of a stack one after the other, and set its biases to 0."""
    assert layer.bias is not None
    with torch.no_grad():
        for weight in layer.weight if layer.weight.ndim % 2 else (layer.weight,):
            draw(weight.flatten(1))  # a view
        layer.bias.zero_()


def make_norm(width: int, members: int) -> nn.Module:
    return StackedLayerNorm(members, width, EPSILON) if members else nn.LayerNorm(width, EPSILON)


class Residual(nn.Module):
    """A residual block, x + narrow(activation(wide(norm(x)))), which is four times as wide inside.

    Args:
        width: Width of x.
        members: Number of blocks in a stack. 0: no stack.
        units: The activation.
        generator: Draws the initial weights.
    """

    def __init__(self, width: int, members: int, units: Units, generator: torch.Generator) -> None:
        super().__init__()
        self.norm = make_norm(width, members)
        self.wide = make_linear(width, units.preactivations(4 * width), members, he_normal(generator))
        self.activation = units(4 * width)
        self.narrow = make_linear(units.features(4 * width), width, members, he_normal(generator))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(self.activation(self.wide(self.norm(x))))


class SimBa(nn.Module):
    """The body of SimBa: inputs (n, d_in) → features (n, width), or (members, n, width) for a stack.

    A stack also takes inputs of each member, (members, n, d_in).

        embed (linear) → blocks × Residual → norm

    Its inputs must already be normalised by running statistics. At initialisation, the embedding is orthogonal, the
    blocks are He normal and the biases are zero (SimBa, Section 4 and released code).

    Args:
        d_in: Number of inputs.
        width: Width of the features.
        blocks: Number of residual blocks.
        activation: Name of the activation, with optional parameters.
        generator: Draws the initial weights.
        members: Number of networks in a stack. 0: no stack.
    """

    features = "norm"

    def __init__(
        self, d_in: int, width: int, blocks: int, activation: str, generator: torch.Generator, members: int = 0
    ) -> None:
        super().__init__()
        self.width = width
        self.embed = make_linear(d_in, width, members, orthogonal(generator))
        units = Units(activation, members)
        self.blocks = nn.Sequential(*(Residual(width, members, units, generator) for _ in range(blocks)))
        self.norm = make_norm(width, members)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.blocks(self.embed(x)))


class Interpolation(nn.Module):
    """A block of SimBaV2: x ← ℓ2(x + α ⊙ (z − x)), z = ℓ2(narrow(activation(s ⊙ wide(x)))), on the unit sphere.

    Args:
        width: Width of x.
        members: Number of blocks in a stack. 0: no stack.
        units: The activation.
        draw: Draws one weight matrix.
        alpha: The first value of α.
    """

    def __init__(self, width: int, members: int, units: Units, draw: Draw, alpha: float) -> None:
        super().__init__()
        inner, start = units.preactivations(4 * width), math.sqrt(2 / width) / 2
        self.wide = unit_linear(width, inner, members, draw)
        self.scaler = Scaler(inner, start, start, members)
        self.activation = units(4 * width)
        self.narrow = unit_linear(units.features(4 * width), width, members, draw)
        self.alpha = Scaler(width, alpha, width**-0.5, members)

    def forward(self, x: Tensor) -> Tensor:
        z = normalize(self.narrow(self.activation(self.scaler(self.wide(x))) + POSITIVE))
        return normalize(x + self.alpha(z - x))


class SimBaV2(nn.Module):
    """The body of SimBaV2, with the arguments of `SimBa`: inputs (n, d_in) → features (n, width) of length 1.

        ℓ2(x, 3) → embed (linear) → scaler → ℓ2 → blocks × Interpolation

    All rows of its Linear layers have length 1, before and after each optimizer step (see `networks.unit_vectors`).
    Source: Lee et al. 2025, arXiv 2502.15280, in the form of the released code (DAVIAN-Robotics/SimbaV2, 86899c2), with
    the initial values and scales of its configs/agent/simbaV2.yaml.
    """

    features = "blocks"

    def __init__(
        self, d_in: int, width: int, blocks: int, activation: str, generator: torch.Generator, members: int = 0
    ) -> None:
        super().__init__()
        self.width = width
        draw, units, start = orthogonal(generator), Units(activation, members), math.sqrt(2 / width)
        self.embed = unit_linear(d_in + 1, width, members, draw)
        self.scaler = Scaler(width, start, start, members)
        alpha = 1 / (blocks + 1)
        self.blocks = nn.Sequential(*(Interpolation(width, members, units, draw, alpha) for _ in range(blocks)))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(normalize(self.scaler(self.embed(normalize(shift(x, SHIFT))))))


class FlashBlock(nn.Module):
    """A block of FlashSAC: x + activation(norm(narrow(activation(norm(wide(x)))))), four times as wide inside.

    Args:
        width: Width of x.
        members: Number of blocks in a stack. 0: no stack.
        units: The activation.
        draw: Draws one weight matrix.
    """

    def __init__(self, width: int, members: int, units: Units, draw: Draw) -> None:
        super().__init__()
        if (features := units.features(width)) != width:
            raise ValueError(f"--network flash adds its units to {width} features, but {units.text} has {features}")
        inner, outer = units.preactivations(4 * width), units.preactivations(width)
        self.wide = unit_linear(width, inner, members, draw)
        self.wide_norm = UnitBatchNorm(inner, members)
        self.activation = units(4 * width)
        self.narrow = unit_linear(units.features(4 * width), outer, members, draw)
        self.narrow_norm = UnitBatchNorm(outer, members)
        self.last = units(width)

    def forward(self, x: Tensor) -> Tensor:
        z = self.activation(self.wide_norm(self.wide(x)))
        return x + self.last(self.narrow_norm(self.narrow(z)))


class Flash(nn.Module):
    """The body of FlashSAC, with the arguments of `SimBa`: inputs (n, d_in) → features (n, width).

        batch normalisation → embed (linear) → blocks × FlashBlock → RMS normalisation

    The rows of its Linear layers have length 1, and the gains and shifts of its normalisations length √width (see
    `networks.unit_vectors`). Source: released code (Holiday-Robot/FlashSAC, 87edc90).
    """

    features = "norm"

    def __init__(
        self, d_in: int, width: int, blocks: int, activation: str, generator: torch.Generator, members: int = 0
    ) -> None:
        super().__init__()
        self.width = width
        draw, units = orthogonal(generator), Units(activation, members)
        self.first_norm = UnitBatchNorm(d_in, members)
        self.embed = unit_linear(d_in, width, members, draw)
        self.blocks = nn.Sequential(*(FlashBlock(width, members, units, draw) for _ in range(blocks)))
        self.norm = UnitRMSNorm(width, members)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.blocks(self.embed(self.first_norm(x))))


class CrossQ(nn.Module):
    """The body of CrossQ, with the arguments of `SimBa`: inputs (n, d_in) → features (n, width).

        norm → blocks × (linear → activation → norm)

    Source: Bhatt et al. 2024 (arXiv 1902.05605) and released code (adityab/CrossQ), which renormalises batches in the
    actor and in the critics.
    """

    features = "layers"

    def __init__(
        self, d_in: int, width: int, blocks: int, activation: str, generator: torch.Generator, members: int = 0
    ) -> None:
        super().__init__()
        draw, units = he_normal(generator, gain=1.0), Units(activation, members)
        self.width = features = units.features(width)
        self.first_norm = BatchNorm(d_in, members, RENORM_EPSILON, WARM_UP)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(
                    make_linear(d, units.preactivations(width), members, draw),
                    units(width),
                    BatchNorm(features, members, RENORM_EPSILON, WARM_UP),
                )
                for d in [d_in, *[features] * blocks][:blocks]
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.first_norm(x))


class MLPBody(nn.Module):
    """An MLP with an activation after each layer: (n, d_in) → (n, width), or (members, n, width) for a stack.

    A stack also takes inputs of each member, (members, n, d_in).

    Args:
        d_in: Number of inputs.
        hidden: Widths of the layers, at least one.
        activation: Name of the activation, with optional parameters.
        generator: Draws the initial weights.
        members: Number of networks in a stack. 0: no stack.
        normalization: The normalisation of the layers (see `networks.normalization`).

    Attributes:
        width: hidden[-1], or the number of features that the activation returns for it.
    """

    features = None

    def __init__(
        self,
        d_in: int,
        hidden: Sequence[int],
        activation: str,
        generator: torch.Generator,
        members: int = 0,
        normalization: Normalization = "none",
    ) -> None:
        super().__init__()
        units = Units(activation, members)
        features = [units.features(width) for width in hidden]
        self.width = features[-1]
        self.linears = nn.ModuleList(
            make_linear(d, units.preactivations(width), members, uniform(generator), normalization)
            for d, width in zip([d_in, *features], hidden, strict=False)
        )
        self.norms = nn.ModuleList(
            nn.Sequential(*hidden_norm(units.preactivations(width), normalization, members)) for width in hidden
        )
        self.activations = nn.ModuleList(units(width) for width in hidden)

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm, activation in zip(self.linears, self.norms, self.activations, strict=True):
            x = activation(norm(layer(x)))
        return x


class Seeing(nn.Module):
    """A body behind convolutions, which read the image in its inputs; the other inputs are joined to their features.

    Args:
        encoder: The convolutions, (n, d_in) → (n, encoder.features), or for a stack (members, n, …).
        body: The network that reads these features.
    """

    def __init__(self, encoder: Convolutions | OwnNetwork, body: "Plain") -> None:
        super().__init__()
        self.encoder, self.body = encoder, body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.encoder(x))


Plain = SimBa | SimBaV2 | Flash | CrossQ | MLPBody
Body = Plain | Seeing
BODIES: dict[str, type[SimBa | SimBaV2 | Flash | CrossQ]] = {
    "simba": SimBa, "simba_v2": SimBaV2, "flash": Flash, "crossq": CrossQ,
}  # fmt: skip
