"""Scale symmetries of transformers: a factor can move from one weight to the next without a change of the function.

    W_O·diag(α)·diag(1/α)·W_V = W_O·W_V            value and output projection, a factor for each channel of each head
    W_down(σ(W_gate·x) ⊙ W_up·x)                   up and down projection of a gated MLP, a factor for each unit

Source: the SIB paper, 4.1 and Appendix B. Attention mixes positions and not channels, so it preserves a factor on a
channel of the values. With grouped-query attention, every query head of a group reads the same key/value head and
therefore has its factors. In the gated MLP only `up` is linear. The gate passes through σ and belongs to no pair.

`config.model_type` identifies architectures of `transformers`. Only those are supported whose code has been read
(version 5.23), because a norm on the values, a clamp, a fused projection or an ungated MLP would break the symmetry
without a trace in the weights. Your own module can declare its pairs by a method `scale_symmetries()`, which returns a
list of `ScalePair`. This file imports only torch and recognises modules by the names of their parts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

FAMILIES = (
    *("gemma", "gemma2", "gemma3_text", "granite", "llama", "mistral"),
    *("olmo", "olmo2", "olmo3", "qwen2", "qwen3", "smollm3"),
)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DECLARE = "a module of one's own declares its pairs by a method scale_symmetries()"


class NoSymmetry(ValueError):
    """A module has no known scale symmetries. The message names the module and the reason."""


@dataclass(frozen=True)
class ScalePair:
    """Two linear layers between which a positive factor per channel can move: div ← div/α, mul ← mul·α.

    Attributes:
        name: The name of the pair in messages, such as "model.layers.0.self_attn".
        div: The layer whose output features from `first` on, `channels` of them, are the channels. A bias is scaled
            like the rows of the weight.
        mul: The layer whose input features are the channels. It has `heads` × groups × (channels/heads) of them, where
            groups = mul.in_features/channels is the number of query heads that read one key/value head.

    Code that declares a pair must ensure that everything between the two layers is linear in each channel.
    """

    name: str
    div: nn.Linear
    mul: nn.Linear
    channels: int
    heads: int = 1
    first: int = 0

    @property
    def groups(self) -> int:
        return self.mul.in_features // self.channels

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """The tensors that are written: both weights, and the bias of `div` if it has one."""
        bias = () if self.div.bias is None else (self.div.bias,)
        return (self.div.weight, self.mul.weight, *bias)

    def rows(self, of_div: Tensor) -> Tensor:
        """Return a view, (channels, …), of the channels' rows of a tensor shaped as the weight or bias of `div`."""
        return of_div[self.first : self.first + self.channels]

    def columns(self, of_mul: Tensor) -> Tensor:
        """Return a tensor (…, mul.in_features), such as its weight, as a view (…, heads, groups, channels/heads)."""
        return of_mul.unflatten(-1, (self.heads, self.groups, -1))

    def check(self) -> None:
        """Raise NoSymmetry unless both are plain Linear layers of floating-point numbers whose sizes fit."""
        for role, layer in (("div", self.div), ("mul", self.mul)):
            # a subclass or a wrapper (adapters, quantised layers) may do more than multiply by its weight
            dtype = getattr(layer.weight, "dtype", None)
            if type(layer) is not nn.Linear or dtype not in DTYPES:
                kind = f"{type(layer).__module__.split('.')[0]}'s {type(layer).__name__} of {dtype}"
                hint = "merge adapters into it and load it unquantised first"
                raise NoSymmetry(f"{self.name}: its {role} layer is {kind}, not a plain nn.Linear of floats: {hint}")
        groups, rest = divmod(self.mul.in_features, self.channels)
        in_range = 0 <= self.first <= self.div.out_features - self.channels
        if rest or not groups or self.channels % self.heads or not in_range:
            raise NoSymmetry(
                f"{self.name}: {self.channels} channels in {self.heads} heads do not fit "
                f"{self.div.out_features} outputs and {self.mul.in_features} inputs"
            )


def scale_pairs(model: nn.Module) -> list[ScalePair]:
    """Return the scale-symmetric pairs of a model, in the order of its layers.

    Raises NoSymmetry (a ValueError), in one line: for an architecture that is unknown or has no such symmetry, by name
    and with the reason; for layers that are wrapped or quantised; for a weight of a pair that is used anywhere else.
    """
    if callable(declared := getattr(model, "scale_symmetries", None)):
        pairs = list(declared())
    else:
        _check_family(model)
        pairs = [pair for name, module in model.named_modules() for pair in _pairs_of(name, module)]
    if not pairs:
        raise NoSymmetry(f"{type(model).__name__} has no pairs of scale-symmetric layers")
    for pair in pairs:
        pair.check()
    _check_private(model, pairs)
    return pairs


def may_have_pairs(model: nn.Module) -> bool:
    """Return whether `scale_pairs` supports this kind of model; the call is cheap."""
    return hasattr(model, "scale_symmetries") or _model_type(model) in FAMILIES


def _model_type(model: nn.Module) -> str:
    """Return the architecture's name in `transformers`, or "" for any other module."""
    return str(getattr(getattr(model, "config", None), "model_type", ""))


def _check_family(model: nn.Module) -> None:
    family, kind = _model_type(model), type(model).__name__
    if not family:
        raise NoSymmetry(f"{kind} is no language model of transformers: {DECLARE}")
    if family not in FAMILIES or getattr(model.config, "clip_qkv", None) is not None:  # which clamps the values
        raise NoSymmetry(f"{family} ({kind}) has no known scale symmetry (known: {', '.join(FAMILIES)}): {DECLARE}")


def _pairs_of(name: str, module: nn.Module) -> Iterator[ScalePair]:
    parts = dict(module.named_children())
    if {"v_proj", "o_proj"} <= parts.keys():
        value, output = parts["v_proj"], parts["o_proj"]
        width = int(getattr(module, "head_dim", 0))
        channels = int(getattr(value, "out_features", 0))
        if not width or channels % width:
            raise NoSymmetry(f"{name}: its values cannot be divided into heads of {width} channels")
        yield ScalePair(name, value, output, channels, heads=channels // width)  # type: ignore[arg-type]
    if {"gate_proj", "up_proj", "down_proj"} <= parts.keys():
        up, down = parts["up_proj"], parts["down_proj"]
        yield ScalePair(name, up, down, int(getattr(up, "out_features", 0)))  # type: ignore[arg-type]


def _check_private(model: nn.Module, pairs: list[ScalePair]) -> None:
    """Every written tensor must be a parameter of the model, under one name."""
    names: dict[Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for pair in pairs:
        for weight in pair.weights:
            places = names.get(weight, [])
            if len(places) != 1:
                where = f"shared by {' and '.join(places)}" if places else "no parameter of this model"
                raise NoSymmetry(
                    f"{pair.name}: a weight of its pair is {where}: it cannot be scaled for one place alone"
                )
