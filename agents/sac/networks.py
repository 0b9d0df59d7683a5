"""The networks of SAC: heads behind bodies (see bodies.py), each as a single network or as a stack.

The critics of one agent are a stack. In a stack of agents, their actors are one too, and the critics are a stack of
seeds × critics networks, those of a seed one after the other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.interventions import Layer, chain
from supple.networks import Role
from supple.networks.unit_vectors import Scaler, unit_linear

from .bodies import Body, Draw, Seeing, he_normal, make_linear, orthogonal, uniform

LOG_STD = (-10.0, 2.0)  # range of the policy's log-standard deviation, as in SimBa's released code
CLIPPED = (-20.0, 2.0)  # its range in Haarnoja et al.'s released code and in Stable-Baselines3
LOG_2PI = math.log(2 * math.pi)

NewHead = Callable[[int], nn.Module]  # of a number of outputs: features (n, width) → (n, outputs)


class Heads(nn.ModuleDict):
    """A linear head for each environment: features (n, width) → (n, d_out), or (members, n, …) for a stack.

    All heads read all rows, and of each row the output of the head of its environment is returned. So the others get a
    gradient of zero from it. `environments` are the numbers of the rows' environments, (n,)."""

    def forward(self, features: Tensor, environments: Tensor) -> Tensor:
        outputs = torch.stack([head(features) for head in self.values()], -2)
        own = environments.long()[..., None, None].expand_as(outputs[..., :1, :])
        return outputs.gather(-2, own).squeeze(-2)


def make_head(new: NewHead, d_out: int, environments: Sequence[str]) -> nn.Module:
    """Return a head, or one for each of these environments."""
    return Heads({env: new(d_out) for env in environments}) if environments else new(d_out)


def linear_head(width: int, members: int, draw: Draw) -> NewHead:
    """Return what makes linear heads, (n, width) → (n, d_out), or stacks of them (see `make_linear`)."""
    return lambda d_out: make_linear(width, d_out, members, draw)


def new_head(network: str, width: int, members: int, generator: torch.Generator) -> NewHead:
    """Return what makes the heads behind the body of a network, (n, width) → (n, d_out).

    They are linear. SimBaV2's have a hidden layer with a scaler and no activation, and unit rows, as FlashSAC's have.
    """
    draw = orthogonal(generator)
    if network == "simba_v2":
        return lambda d_out: nn.Sequential(
            unit_linear(width, width, members, draw),
            Scaler(width, members=members),
            unit_linear(width, d_out, members, draw, bias=True),
        )
    if network == "flash":
        return lambda d_out: unit_linear(width, d_out, members, draw, bias=True)
    if network == "crossq":
        draw = he_normal(generator, gain=1.0)
    elif network == "mlp":
        draw = uniform(generator)
    return linear_head(width, members, draw)


class Actor(nn.Module):
    """A tanh-Gaussian policy: observations (n, d) → mean and log-standard deviation before tanh, (n, actions) each.

    In a stack, observations and outputs have the members as their first axis. With a head for each environment, the
    last of the observation's numbers is that of its environment, and only the heads read it.

    Args:
        body: The network below the heads, (n, d) → (n, width).
        head: Makes a head.
        actions: Length of an action.
        clipped: Clip the log-standard deviation to `CLIPPED`; otherwise a tanh squashes it into `LOG_STD`. Outputs of a
            new plain network or SimBaV2 are near 0, so the standard deviation is about 1 if it is clipped, and e⁻⁴ if
            it is squashed; those of SimBa and FlashSAC are about ±1, and it lies between 1e-4 and 3.
        environments: The environments that have heads of their own. (): all share one.
    """

    def __init__(
        self,
        body: Body,
        head: NewHead,
        actions: int,
        clipped: bool = False,
        environments: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.body, self.clipped, self.several = body, clipped, bool(environments)
        self.mean = make_head(head, actions, environments)
        self.log_std = make_head(head, actions, environments)

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

        In a stack, observations, noise and both results have the members as their first axis. Observations without
        noise, which follow the others, only count in the statistics of batches.
        log π = Σ log N(u; μ, σ) − log(1 − tanh²u) (Haarnoja et al. 2018, Appendix C). The last term is computed as
        2·(log 2 − u − softplus(−2u)), which is accurate for large u."""
        mean, log_std = (each[..., : noise.shape[-2], :] for each in self(observations))
        u = mean + log_std.exp() * noise
        gaussian = -0.5 * noise.square() - log_std - 0.5 * LOG_2PI
        return torch.tanh(u), (gaussian - 2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)


class QNetworks(nn.Module):
    """A stack of Q-networks: inputs (n, d + actions), or those of each seed, (seeds, n, d + actions).

    The outputs are (members, n), or (members, n, outputs) if there are several for each value (see `value_heads`).
    With a head for each environment, another input follows these, the number of the environment.

    Args:
        body: The network below the head, (n, d + actions) → (members, n, width).
        head: Makes a head.
        members: Number of networks, those of a seed one after the other. 0: one, whose outputs have no such axis.
        outputs: The outputs for each value.
        environments: The environments that have heads of their own. (): all share one.
        seeds: Number of seeds. 0: the networks are those of one, whose inputs have no axis of seeds.
    """

    def __init__(
        self, body: Body, head: NewHead, members: int, outputs: int = 1, environments: Sequence[str] = (),
        seeds: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.body, self.members, self.seeds, self.several = body, members, seeds, bool(environments)
        self.head, self.single = make_head(head, outputs, environments), outputs == 1

    def forward(self, x: Tensor) -> Tensor:
        if self.seeds:  # all networks of a seed get the inputs of that seed
            x = x[:, None].expand(-1, self.members // self.seeds, -1, -1).flatten(0, 1)
        elif self.members and isinstance(self.body, Seeing):
            x = x.expand(self.members, -1, -1)
        outputs = self.head(self.body(x[..., :-1]), x[..., -1]) if self.several else self.head(self.body(x))
        return outputs.squeeze(-1) if self.single else outputs


class Apart(nn.Module):
    """Q-networks that are no stack, as a user's network has none: inputs (n, d) → (networks, n[, outputs]).

    For hooks and metrics, they are branches of one network."""

    def __init__(self, networks: Sequence[QNetworks]) -> None:
        super().__init__()
        self.networks, self.several = nn.ModuleList(networks), networks[0].several

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([network(x) for network in self.networks])

    @property
    def branches(self) -> list[QNetworks]:
        return [network for network in self.networks if isinstance(network, QNetworks)]


class Critics(nn.Module):
    """The critics as one module: (n, d), (n, actions) → (members, n[, outputs]). Plasticity injection duplicates `net`.

    For several seeds, observations and actions have the seeds as their first axis.
    """

    def __init__(self, net: QNetworks | Apart) -> None:
        super().__init__()
        self.net, self.several = net, net.several

    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        if not self.several:
            return self.net(torch.cat([observations, actions], -1))
        # the number of the environment stays the last
        return self.net(torch.cat([observations[..., :-1], actions, observations[..., -1:]], -1))


def layers_of(headed: Actor | QNetworks | Apart, prefix: str = "") -> tuple[Layer, ...]:
    """Return a body's first layer, or its convolutions (encoder), its other layers (hidden) and its heads.

    Their names are under `prefix`."""
    if isinstance(headed, Apart):
        branches = [layers_of(each, f"{prefix}networks.{i}.") for i, each in enumerate(headed.branches)]
        return tuple(layer for at_one_depth in zip(*branches, strict=True) for layer in at_one_depth)
    layers, body = chain(headed, prefix), len(chain(headed.body))
    encoder = f"{prefix}body.encoder." if isinstance(headed.body, Seeing) else layers[0].name

    def role(layer: Layer) -> Role:
        return "head" if layer.depth >= body else "encoder" if layer.name.startswith(encoder) else "hidden"

    return tuple(replace(layer, role=role(layer), depth=min(layer.depth, body)) for layer in layers)


def features_of(headed: Actor | QNetworks | Apart, prefix: str = "") -> str | None:
    """Return the name of the module whose outputs the heads read, or None for a body that ends in an activation."""
    if isinstance(headed, Apart):
        return features_of(headed.branches[-1], f"{prefix}networks.{len(headed.networks) - 1}.")
    body, path = (headed.body.body, "body.body") if isinstance(headed.body, Seeing) else (headed.body, "body")
    return body.features and f"{prefix}{path}.{body.features}"
