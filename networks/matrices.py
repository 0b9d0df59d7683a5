"""The weight matrices of a module: which parameters form them, and which other parameters form none, with the reason.

    Linear, StackedLinear            (d_out, d_in)               one matrix, or one for each member
    Conv1d/2d/3d, StackedConv2d      (C_out, C_in, *kernel)      one for each tap of the kernel
    Conv1D (transformers' GPT-2)     (d_in, d_out)               one, transposed; its c_attn is query, key and value
    RNN, GRU, LSTM, their cells      (gates·hidden, d_in)        one for each gate, of inputs and of hidden states
    MultiheadAttention               (3·width, width)            query, key and value, fused or not

Layers are recognised by their classes. This file imports only torch.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from .modules import CONV, LINEAR, STACKED, STACKED_NORMS, qualified_name
from .parameters import names_by_parameter
from .scale import isometry_scale

FROZEN = "frozen (requires_grad=False)"
FACTOR = "a factor of an adapter, and the map of no layer: merge the adapter first"

Layout = Literal["linear", "stacked", "conv", "transposed"]


@dataclass(frozen=True)
class Weight:
    """A weight, and how its dimensions form matrices (d_out, d_in).

    Attributes:
        name: The name of the parameter, for messages.
        tensor: The weight as it is stored.
        layout: `linear` (d_out, d_in); `conv` (C_out, C_in, *kernel), one matrix per tap; `stacked`, several networks
            with the members first: (members, d_out, d_in), or for 2-D convolutions (members, C_out, C_in, k_h, k_w);
            `transposed` (d_in, d_out). The slice of a grouped convolution is used as it is stored, (C_out,
            C_in/groups), since the FIRE paper defines none.
        split: Number of equal parts along d_out that are separate matrices, such as 3 for a fused q, k, v.
    """

    name: str
    tensor: Tensor
    layout: Layout = "linear"
    split: int = 1

    def __post_init__(self) -> None:
        shape = tuple(self.tensor.shape)
        fits = {"linear": (2,), "stacked": (3, 5), "conv": (3, 4, 5), "transposed": (2,)}[self.layout]
        if len(shape) not in fits:
            raise ValueError(f"{self.name}: a {self.layout} weight cannot have the shape {shape}")
        d_out = self._stored().shape[self.layout == "stacked"]
        if self.split < 1 or d_out % self.split:
            raise ValueError(f"{self.name}: {d_out} outputs cannot be split into {self.split} equal parts")

    def _stored(self) -> Tensor:
        return self.tensor.mT if self.layout == "transposed" else self.tensor

    def matrices(self) -> Tensor:
        """Return a view (members, taps, split, d_out, d_in) of the weight, without the members or taps that it lacks.

        The view is differentiable. Detach it to write.
        """
        first = int(self.layout == "stacked")  # the axis of the outputs
        tensor = self._stored().movedim((first, first + 1), (-2, -1))
        return tensor.unflatten(-2, (self.split, -1))

    def scale(self) -> float:
        """Return the factor of the isometry that keeps the variance of a signal (see `isometry_scale`)."""
        weight = self._stored()[0] if self.layout == "stacked" else self._stored()
        return isometry_scale(weight[: len(weight) // self.split])


@dataclass
class Matrices:
    """The weight matrices of a module. Names are those of `named_parameters`, where a tied tensor has its first name.

    Attributes:
        weights: The weights that form matrices, by name, in the order of their definition.
        spared: Those of `weights` that are left as they are unless they are asked for by name → the reason.
        skipped: Each other parameter of two or more dimensions → the reason. A weight that is computed from other
            parameters has the name that its layer has for it. Biases, and gains of one dimension, are no part of it.
        several: The names of those `weights` whose layers have more than one, so that no `Layer` describes them.

    A reason completes a sentence "NAME is …".
    """

    weights: dict[str, Weight] = field(default_factory=dict)
    spared: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    several: set[str] = field(default_factory=set)

    def left(self) -> dict[str, str]:
        """Return everything that is not rewritten by default, with the reasons."""
        return {**self.spared, **self.skipped}


def is_transposed(module: nn.Module) -> bool:
    """Return whether a module is transformers' Conv1D, a linear layer whose weight is (d_in, d_out)."""
    return any(
        kind.__name__ == "Conv1D" and kind.__module__.split(".")[0] == "transformers" for kind in type(module).__mro__
    )


def parts_of(name: str, module: nn.Module) -> int:
    """Return the number of matrices that are fused in a layer of this name: 3 for GPT-2's c_attn, usually 1."""
    if is_transposed(module) and name.rpartition(".")[2] == "c_attn":
        d_in, d_out = module.get_parameter("weight").shape
        return 1 if d_out % d_in else d_out // d_in
    return 1


def weight_matrices(module: nn.Module) -> Matrices:
    """Return the weights of a module that form matrices, and the reasons why its other parameters do not."""
    names = names_by_parameter(module)
    tables = {
        table: path
        for path, part in module.named_modules()
        if isinstance(part, (nn.Embedding, nn.EmbeddingBag))
        for table in part.parameters(recurse=False)
    }
    factors = {p for part in adapter_modules(module) for p in part.parameters(recurse=False)}
    found = Matrices()
    for path, part in module.named_modules():
        for own, (layout, split) in _forms(path, part):
            tensor = part._parameters.get(own)
            if tensor is None:
                why = (
                    f"parametrized (computed from others of its {type(part).__name__}) and cannot be rewritten in place"
                )
                found.skipped[qualified_name(path, own)] = why
                continue
            name = names[tensor]
            if name in found.weights or name in found.skipped:
                continue
            if why := unfit(tensor) or (FACTOR if tensor in factors else ""):
                found.skipped[name] = why
                continue
            try:
                found.weights[name] = Weight(name, tensor, layout, split)
            except ValueError:  # a subclass may store its weight in another way
                found.skipped[name] = f"of the shape {tuple(tensor.shape)}, which is not that of a {layout} weight"
                continue
            if isinstance(part, (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention)):
                found.several.add(name)
            if tensor in tables:
                found.spared[name] = f"tied to the embedding '{tables[tensor]}'"
            elif not tensor.requires_grad:
                found.spared[name] = FROZEN
    for part in module.modules():
        if isinstance(part, (parametrize.ParametrizationList, *STACKED, *STACKED_NORMS)):
            continue  # said of the layer that it belongs to; vectors, of several members
        for tensor in part.parameters(recurse=False):
            name = names[tensor]
            if name in found.weights or name in found.skipped or (not is_lazy(tensor) and tensor.ndim < 2):
                continue
            other = "an embedding" if tensor in tables else f"a parameter of {type(part).__name__}, and no known matrix"
            found.skipped[name] = FACTOR if tensor in factors else other
    return found


def first_names(module: nn.Module) -> dict[str, str]:
    """Return every name of every parameter of a module → its first one, that of `named_parameters`."""
    first = names_by_parameter(module)
    return {name: first[parameter] for name, parameter in module.named_parameters(remove_duplicate=False)}


def _forms(path: str, part: nn.Module) -> Iterator[tuple[str, tuple[Layout, int]]]:
    """Yield the name, the layout and the split of each weight that a layer has; nothing for other modules."""
    if isinstance(part, STACKED):
        yield "weight", ("stacked", 1)
    elif isinstance(part, LINEAR):
        yield "weight", ("linear", 1)
    elif isinstance(part, CONV):
        yield "weight", ("conv", 1)
    elif is_transposed(part):
        yield "weight", ("transposed", parts_of(path, part))
    elif isinstance(part, nn.MultiheadAttention):
        if part._qkv_same_embed_dim:
            yield "in_proj_weight", ("linear", 3)
        else:
            yield from ((f"{which}_proj_weight", ("linear", 1)) for which in "qkv")
    elif isinstance(part, nn.RNNBase):
        gates = {"LSTM": 4, "GRU": 3}.get(part.mode, 1)
        weights = [own for own in part._flat_weights_names if own.startswith("weight")]
        yield from ((own, ("linear", 1 if own.startswith("weight_hr") else gates)) for own in weights)
    elif isinstance(part, nn.RNNCellBase):
        gates = 4 if isinstance(part, nn.LSTMCell) else 3 if isinstance(part, nn.GRUCell) else 1
        yield from ((own, ("linear", gates)) for own in ("weight_ih", "weight_hh"))


def unfit(tensor: Tensor) -> str:
    """Return why a parameter cannot be rewritten in place as it is stored, or "" if it can."""
    if is_lazy(tensor) or tensor.is_meta:
        return "lazy or on the meta device, and has no values yet"
    kind = type(tensor.detach())
    if kind is not Tensor or tensor.layout is not torch.strided or not tensor.is_floating_point():
        return f"quantised, complex or sparse ({kind.__name__} of {tensor.dtype})"
    if tensor.itemsize == 1:
        return f"quantised ({tensor.dtype})"
    return "" if tensor.numel() else f"empty: {tuple(tensor.shape)}"


def adapter_modules(module: nn.Module) -> set[nn.Module]:
    """Return the modules that belong to adapters, those that PEFT's layers name in `adapter_layer_names`.

    PEFT's whole copies of a layer (`modules_to_save`) are layers like any other.
    """
    adapters = [
        getattr(part, name, None)
        for part in module.modules()
        for name in set(getattr(part, "adapter_layer_names", ())) - {"modules_to_save"}
    ]
    return {part for adapter in adapters if isinstance(adapter, nn.Module) for part in adapter.modules()}


class Written(list[str]):
    """The names of the parameters that a function wrote.

    Attributes:
        skipped: The name of each parameter that it left as it was although it was not told to → the reason, which
            completes a sentence "NAME is …".
    """

    def __init__(self, names: Iterable[str] = (), skipped: Mapping[str, str] | None = None) -> None:
        super().__init__(names)
        self.skipped: dict[str, str] = dict(skipped or {})


def describe_skipped(skipped: Mapping[str, str]) -> str:
    """Return which parameters were skipped and why, in words: for each reason one of them, and the number of others."""
    groups: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        groups.setdefault(reason, []).append(name)
    more = {reason: f" and {len(names) - 1} more" if len(names) > 1 else "" for reason, names in groups.items()}
    return "; ".join(f"{names[0]}{more[reason]} ({reason})" for reason, names in groups.items())
