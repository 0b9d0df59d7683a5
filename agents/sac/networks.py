"""The networks of SAC: SimBa (Lee et al. 2025) and plain MLPs, each as a single network or as a stack.

Images are read by convolutions before these. The actor and each critic have convolutions of their own, trained by their
own loss. In Stable-Baselines3, which also separates actor and critics, the critics share theirs. DrQ (Kostrikov et al.
2021) has one set for actor and critics, which only the critics' loss trains.

The critics of one agent are a stack. In a stack of agents, their actors are one too, and the critics are a stack of
seeds × critics networks, those of a seed one after the other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.agents.encoders import Convolution, Convolutions
from supple.interventions import Layer, StackedLayerNorm, StackedLinear, Units, chain
from supple.networks import Normalization, Role, hidden_linear, hidden_norm

EPSILON = 1e-6  # of SimBa's layer normalisation: Flax's default
TRUNCATED = 0.87962566  # standard deviation of N(0, 1) truncated at ±2
LOG_STD = (-10.0, 2.0)  # range of the policy's log-standard deviation, as in SimBa's released code
CLIPPED = (-20.0, 2.0)  # its range in Haarnoja et al.'s released code and in Stable-Baselines3
LOG_2PI = math.log(2 * math.pi)

Draw = Callable[[Tensor], object]  # writes new values into one weight matrix


def orthogonal(generator: torch.Generator) -> Draw:
    return lambda weight: nn.init.orthogonal_(weight, generator=generator)


def he_normal(generator: torch.Generator) -> Draw:
    """Return Flax's `he_normal`: N(0, 2/d_in), truncated at two standard deviations and scaled to keep its variance."""

    def draw(weight: Tensor) -> None:
        std = math.sqrt(2 / weight.shape[1]) / TRUNCATED
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

    def __init__(
        self, d_in: int, width: int, blocks: int, activation: str, generator: torch.Generator, members: int = 0
    ) -> None:
        super().__init__()
        self.embed = make_linear(d_in, width, members, orthogonal(generator))
        units = Units(activation, members)
        self.blocks = nn.Sequential(*(Residual(width, members, units, generator) for _ in range(blocks)))
        self.norm = make_norm(width, members)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.blocks(self.embed(x)))


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

    def __init__(self, encoder: Convolutions, body: SimBa | MLPBody) -> None:
        super().__init__()
        self.encoder, self.body = encoder, body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.encoder(x))


Body = SimBa | MLPBody | Seeing


class Heads(nn.ModuleDict):
    """A linear head for each environment: features (n, width) → (n, d_out), or (members, n, …) for a stack.

    All heads read all rows, and of each row the output of the head of its environment is returned. So the others get a
    gradient of zero from it. `environments` are the numbers of the rows' environments, (n,)."""

    def forward(self, features: Tensor, environments: Tensor) -> Tensor:
        outputs = torch.stack([head(features) for head in self.values()], -2)
        own = environments.long()[..., None, None].expand_as(outputs[..., :1, :])
        return outputs.gather(-2, own).squeeze(-2)


def make_head(
    width: int, d_out: int, members: int, draw: Draw, environments: Sequence[str]
) -> nn.Linear | StackedLinear | Heads:
    """Return a head, or one for each of these environments."""
    if not environments:
        return make_linear(width, d_out, members, draw)
    return Heads({env: make_linear(width, d_out, members, draw) for env in environments})


class Actor(nn.Module):
    """A tanh-Gaussian policy: observations (n, d) → mean and log-standard deviation before tanh, (n, actions) each.

    In a stack, observations and outputs have the members as their first axis. With a head for each environment, the
    last of the observation's numbers is that of its environment, and only the heads read it.

    Args:
        body: The network below the heads, (n, d) → (n, width).
        width: Width of the body's features.
        actions: Length of an action.
        draw: Draws the weights of the heads.
        clipped: Clip the log-standard deviation to `CLIPPED`; otherwise a tanh squashes it into `LOG_STD`. A new
            network has outputs near 0, so its standard deviation is about 1 if it is clipped, and e⁻⁴ if it is
            squashed.
        members: Number of policies in a stack. 0: no stack.
        environments: The environments that have heads of their own. (): all share one.
    """

    def __init__(
        self,
        body: Body,
        width: int,
        actions: int,
        draw: Draw,
        clipped: bool = False,
        members: int = 0,
        environments: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.body, self.clipped, self.several = body, clipped, bool(environments)
        self.mean = make_head(width, actions, members, draw, environments)
        self.log_std = make_head(width, actions, members, draw, environments)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        own: tuple[Tensor, ...] = ()
        if self.several:
            observations, own = observations[..., :-1], (observations[..., -1],)
        features = self.body(observations)
        mean, log_std = self.mean(features, *own), self.log_std(features, *own)
        if self.clipped:
            return mean, log_std.clamp(*CLIPPED)
        low, high = LOG_STD
        return mean, low + 0.5 * (high - low) * (1 + torch.tanh(log_std))

    def sample(self, observations: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions tanh(u), u = μ + σ·noise, in (−1, 1), (n, actions), and their log-densities, (n,).

        In a stack, observations, noise and both results have the members as their first axis.
        log π = Σ log N(u; μ, σ) − log(1 − tanh²u) (Haarnoja et al. 2018, Appendix C). The last term is computed as
        2·(log 2 − u − softplus(−2u)), which is accurate for large u."""
        mean, log_std = self(observations)
        u = mean + log_std.exp() * noise
        gaussian = -0.5 * noise.square() - log_std - 0.5 * LOG_2PI
        return torch.tanh(u), (gaussian - 2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)


class QNetworks(nn.Module):
    """A stack of Q-networks: inputs (n, d + actions), or those of each seed, (seeds, n, d + actions) → (members, n).

    With a head for each environment, another input follows these, the number of the environment.

    Args:
        body: The network below the head, (n, d + actions) → (members, n, width).
        width: Width of the body's features.
        members: Number of networks, those of a seed one after the other.
        draw: Draws the weights of one head.
        environments: The environments that have heads of their own. (): all share one.
        seeds: Number of seeds. 0: the networks are those of one, whose inputs have no axis of seeds.
    """

    def __init__(
        self, body: Body, width: int, members: int, draw: Draw, environments: Sequence[str] = (), seeds: int = 0
    ) -> None:
        super().__init__()
        self.body, self.members, self.seeds, self.several = body, members, seeds, bool(environments)
        self.head = make_head(width, 1, members, draw, environments)

    def forward(self, x: Tensor) -> Tensor:
        if self.seeds:  # all networks of a seed get the inputs of that seed
            x = x[:, None].expand(-1, self.members // self.seeds, -1, -1).flatten(0, 1)
        elif isinstance(self.body, Seeing):
            x = x.expand(self.members, -1, -1)
        if not self.several:
            return self.head(self.body(x)).squeeze(-1)
        return self.head(self.body(x[..., :-1]), x[..., -1]).squeeze(-1)


class Critics(nn.Module):
    """The critics as one module: (n, d), (n, actions) → (members, n). Plasticity injection duplicates `net`.

    For several seeds, observations and actions have the seeds as their first axis.
    """

    def __init__(self, net: QNetworks) -> None:
        super().__init__()
        self.net, self.several = net, net.several

    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        if not self.several:
            return self.net(torch.cat([observations, actions], -1))
        # the number of the environment stays the last
        return self.net(torch.cat([observations[..., :-1], actions, observations[..., -1:]], -1))


def layers_of(headed: Actor | QNetworks, prefix: str = "") -> tuple[Layer, ...]:
    """Return a body's first layer, or its convolutions (encoder), its other layers (hidden) and its heads.

    Their names are under `prefix`."""
    layers, body = chain(headed, prefix), len(chain(headed.body))
    encoder = f"{prefix}body.encoder." if isinstance(headed.body, Seeing) else layers[0].name

    def role(layer: Layer) -> Role:
        return "head" if layer.depth >= body else "encoder" if layer.name.startswith(encoder) else "hidden"

    return tuple(replace(layer, role=role(layer), depth=min(layer.depth, body)) for layer in layers)


def features_of(headed: Actor | QNetworks, prefix: str = "") -> str | None:
    """Return the name of SimBa's last normalisation, or None for a body that ends in an activation."""
    body, path = (headed.body.body, "body.body") if isinstance(headed.body, Seeing) else (headed.body, "body")
    return f"{prefix}{path}.norm" if isinstance(body, SimBa) else None
