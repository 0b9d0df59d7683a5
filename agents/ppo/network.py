"""The actor–critic of PPO: one body for all environments, and an adapter and heads for each of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from supple.agents.encoders import make_encoder
from supple.agents.initialization import Initialization, draw_, hidden_layer
from supple.agents.spaces import only_space
from supple.envs import Picture
from supple.interventions import Layer, Units, Wiring, balance_layers_, chain
from supple.networks import Role, direct, hidden_linear, trace_wiring, unit_names
from supple.networks.modules import CONV, LINEAR
from supple.networks.normalization import Normalization

from .policies import Policy

SHARED = "all"  # the key of adapter, head and statistics that all environments share


class PolicySpace(NamedTuple):
    """An environment's observations as rows of numbers (see `agents.spaces.RowSpace`), and its policy.

    Attributes:
        observation: The length of a row.
        policy: The policy for the action space.
        dtype: The type of the numbers that the network reads, as a name of NumPy's.
        picture: How an image lies in a row, or None if observations are vectors.
    """

    observation: int
    policy: Policy
    dtype: str = "float32"
    picture: Picture | None = None

    @property
    def vector(self) -> int:
        """The number of entries that belong to no image, the last ones."""
        return self.observation - (self.picture.size if self.picture else 0)

    def __str__(self) -> str:
        return f"{self.observation} observations and {self.policy}"


def share_space(spaces: Mapping[str, PolicySpace]) -> dict[str, PolicySpace]:
    """Return the space of one head for all environments. Raises ValueError if their spaces differ."""
    _only_picture(spaces, 0)
    return {SHARED: only_space("PPO with --heads one", spaces)}


def _only_picture(spaces: Mapping[str, PolicySpace], adapter: int) -> Picture | None:
    """Return how the images lie that all environments show, or None if none of them shows any.

    Raises ValueError if they differ, or should have adapters."""
    (first, space), *others = spaces.items()
    for env, other in others:
        if other.picture != space.picture:
            shown = [str(picture or "vectors") for picture in (space.picture, other.picture)]
            raise ValueError(
                f"all environments have one body, which needs equal images, but {first} shows {shown[0]} and {env} "
                f"{shown[1]}: wrap the environments, or, if none is a game, use --observations vector"
            )
    if adapter and space.picture is not None:
        raise ValueError(f"--adapter {adapter} is for vectors, and {first} shows {space.picture}: use --adapter 0")
    return space.picture


class Tower(NamedTuple):
    """The names of adapters and of a body, and the heads that read it."""

    adapters: str
    body: str
    heads: list[nn.Module]


def rows_of(scale: Tensor) -> Tensor:
    """Return a parameter of one or of several networks, (a,) or (members, a), in a shape that broadcasts to rows."""
    return scale if scale.ndim == 1 else scale[:, None]


class MultiHead(nn.Module):
    """The actor–critic for a stream of environments: one shared body, and an adapter and two heads for each of them.

        observation (n, d_e) → adapter_e (linear) → body (width × activation, …) → policy_e (n, a_e), value_e (n)

    If observations are images, the body begins with convolutions (see `Convolutions`) and there are no adapters.

    A stack of networks has the members as the first axis of all tensors: (members, n, d_e) → (members, n, a_e).

    The outputs of the policy parameterise its distribution: means or logits (see `policies`).

    The paper gives each environment "a lightweight input adapter" and does not say whether it has a nonlinearity. Here
    it is linear, so the layers of the body are the only nonlinear ones. With `adapter=0` the body reads the observation
    itself, which must have the same length in all environments. With `share_value=False` the value function has its own
    adapters and body, as in SB3 and CleanRL.
    """

    def __init__(
        self,
        spaces: Mapping[str, PolicySpace],
        widths: Sequence[int],
        adapter: int,
        activation: str,
        share_value: bool,
        generator: torch.Generator | None,
        init_lambda: float | None = None,
        value_hidden: Sequence[int] | None = None,
        initialization: Initialization = "orthogonal",
        normalization: Normalization = "none",
        members: int = 0,
        encoder: str = "auto",
    ) -> None:
        """Draw a new network, or make a stack of them without drawing (see `stack_networks`).

        Args:
            spaces: Environment id → its space.
            widths: Widths of the body's linear layers, at least one.
            adapter: Width of the adapters. 0: no adapters.
            activation: Name of the activation, with optional parameters.
            share_value: Whether the value function shares adapters and body with the policy.
            generator: Draws the initial weights. None for a stack.
            init_lambda: Rescale the hidden units to this balance when they are drawn (see `balance_`). None: do not.
            value_hidden: Widths of the value function's own body, if it has one. None: as the policy's.
            initialization: Orthogonal weights with CleanRL's gains (√2 in the body, 0.01 before actions) and zero
                biases, or PyTorch's default. CleanRL's IMPALA keeps PyTorch's in its body; here that is orthogonal too.
            normalization: The normalisation of the bodies' layers (see `networks.normalization`).
            members: The number of networks in the stack. 0: no stack.
            encoder: The convolutions that read images (see `parse_encoder`), or a network of the user's.

        Raises:
            ValueError: There are no adapters, but the observations differ in length; images differ, are too small for
                the encoder, or should have adapters; or an encoder should read vectors.
        """
        super().__init__()
        sizes = {key: space.observation for key, space in spaces.items()}
        picture = _only_picture(spaces, adapter)
        if not adapter and len(set(sizes.values())) > 1:
            raise ValueError(f"--adapter 0 needs environments with equal observation sizes, got {sizes}")
        width_in = adapter or next(iter(sizes.values()))

        units, drawn = Units(activation, members), partial(draw_, initialization=initialization, generator=generator)

        def linear(d_in: int, d_out: int, gain: float) -> nn.Module:
            return drawn(hidden_linear(d_in, d_out, members=members), gain=gain)

        def adapters() -> nn.ModuleDict:
            return nn.ModuleDict({key: linear(d, adapter, 1.0) for key, d in sizes.items() if adapter})

        def body(widths: Sequence[int]) -> nn.Sequential:
            layers: list[nn.Module] = []
            d_in = width_in
            if (first := make_encoder(picture, d_in, encoder, units, drawn, generator)) is not None:
                layers, d_in = [first], first.features
            for width in widths:
                layers += hidden_layer(d_in, width, units, normalization, drawn)
                d_in = units.features(width)
            return nn.Sequential(*layers)

        def heads(d_in: int, sizes: Mapping[str, int], gain: float) -> nn.ModuleDict:
            return nn.ModuleDict({key: linear(units.features(d_in), d, gain) for key, d in sizes.items()})

        self.policies = {key: space.policy for key, space in spaces.items()}
        self.share_value = share_value
        self.adapters, self.body = adapters(), body(widths)
        values = widths if share_value else value_hidden or widths
        if not share_value:
            self.value_adapters, self.value_body = adapters(), body(values)
        self.policy = heads(widths[-1], {key: policy.outputs for key, policy in self.policies.items()}, 0.01)
        self.value = heads(values[-1], dict.fromkeys(spaces, 1), 1.0)
        stack = (members,) if members else ()
        scales = {key: nn.Parameter(torch.zeros(*stack, p.outputs)) for key, p in self.policies.items() if p.scaled}
        self.log_std = nn.ParameterDict(scales)
        if init_lambda is not None and not members:
            self.balance_(init_lambda)

    def balance_(self, lam: float) -> None:
        """Rescale every hidden unit, including the adapters', so that ‖outgoing weights‖² − ‖incoming‖² − bias² = λ.

        Those of convolutions keep their weights: only units between linear layers can be balanced.
        The outgoing weights are those of all layers that read the unit, and the incoming weights those of all layers
        that feed it. The gains of the orthogonal initialisation are lost. With a shared body, the heads of policy and
        value keep the ratio of their gains, 0.01 to 1. With separate bodies, the policy's head gets the scale of its
        body, so the first actions are larger.
        """
        for tower in self.towers():
            adapters, body = self.get_submodule(tower.adapters), self.get_submodule(tower.body)
            linears = [[layer] for layer in body.children() if isinstance(layer, LINEAR)]
            balance_layers_([*([list(adapters.children())] if len(self.adapters) else []), *linears, tower.heads], lam)

    def make_policy(self, key: str, compiled: bool = False) -> Callable[[Tensor], Tensor]:
        """Return a fast function from observations (n, d_e) to the outputs of the policy, (n, a_e) (see `direct`)."""
        adapter = (self.adapters[key],) if len(self.adapters) else ()
        return direct(*adapter, self.body, self.policy[key], compiled=compiled)

    def values(self, observation: Tensor, key: str) -> Tensor:
        """Return state values, (n,)."""
        own = (self.adapters, self.body) if self.share_value else (self.value_adapters, self.value_body)
        return self.value[key](self._features(observation, key, *own)).squeeze(-1)

    def forward(self, observation: Tensor, key: str) -> tuple[Tensor, Tensor]:
        """Return the policy's outputs (n, a_e) and state values (n,), with a single pass through a shared body."""
        features = self._features(observation, key, self.adapters, self.body)
        outputs = self.policy[key](features)
        if self.share_value:
            return outputs, self.value[key](features).squeeze(-1)
        return outputs, self.values(observation, key)

    def scale(self, key: str) -> Tensor | None:
        """Return log σ of a Gaussian policy, (a_e,) or for a stack (members, 1, a_e), or None for other policies."""
        return rows_of(self.log_std[key]) if self.policies[key].scaled else None

    @staticmethod
    def _features(observation: Tensor, key: str, adapters: nn.ModuleDict, body: nn.Sequential) -> Tensor:
        return body(adapters[key](observation) if len(adapters) else observation)

    def names_of(self, key: str) -> set[str]:
        """Return the names of the parameters that an environment's loss trains: its own and the shared ones."""
        mine, others = f".{key}.", [f".{other}." for other in self.policies if other != key]
        names = [name for name, _ in self.named_parameters()]
        return {n for n in names if mine in f".{n}." or not any(other in f".{n}." for other in others)}

    def layers(self) -> tuple[Layer, ...]:
        """Return adapters or convolutions (encoder), the body's linear layers (hidden) and heads, in forward order."""
        layers: list[Layer] = []
        for tower in self.towers():
            layers += [Layer(f"{tower.adapters}.{key}", own, "encoder", 0) for key, own in self._parts(tower.adapters)]
            found = chain(self.get_submodule(tower.body), f"{tower.body}.")
            own = f"{tower.body}.0.network."  # of the user
            seeing = sum(isinstance(layer.module, CONV) or layer.name.startswith(own) for layer in found)
            for layer in found:
                role: Role = "encoder" if layer.depth < seeing else "hidden"
                layers.append(replace(layer, role=role, depth=layer.depth + (not seeing)))
        depth = 1 + max(layer.depth for layer in layers)
        heads = [(f"{part}.{key}", head) for part in ("policy", "value") for key, head in self._parts(part)]
        return (*layers, *(Layer(name, head, "head", depth) for name, head in heads))

    def units(self) -> tuple[str, ...]:
        """Return the names of the activation modules.

        Those of the value body come first, so that the last name is the policy's last hidden layer, whose outputs are
        called features."""
        return unit_names(self, MultiHead.every_head)

    def wiring(self, units: Sequence[str] | None = None) -> tuple[dict[str, Wiring], dict[str, str]]:
        """Return the wiring of activation modules, and the reasons why others have none (see `trace_wiring`).

        units: What `units` returns, if it is known; to find it takes another trace.
        """
        return trace_wiring(self, self.units() if units is None else units, MultiHead.every_head)

    def every_head(self, x: Tensor) -> list[Tensor]:
        """Return the outputs of all heads for what an adapter returns, (n, d). It is traced, and never called."""
        features = {tower.body: self.get_submodule(tower.body)(x) for tower in reversed(self.towers())}
        return [head(features[tower.body]) for tower in self.towers() for head in tower.heads]

    def towers(self) -> list[Tower]:
        """Return the parts of the policy and, if it shares none of them, of the value function."""
        policy, value = list(self.policy.values()), list(self.value.values())
        if self.share_value:
            return [Tower("adapters", "body", [*policy, *value])]
        return [Tower("adapters", "body", policy), Tower("value_adapters", "value_body", value)]

    def _parts(self, name: str) -> list[tuple[str, nn.Module]]:
        """Return the modules in one of the network's parts, with their names in it."""
        return list(self.get_submodule(name).named_children())
