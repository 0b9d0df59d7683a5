"""Layers with weights and their roles in a network."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized
from torch.optim.swa_utils import AveragedModel

from .matrices import Layout, Weight, adapter_modules, is_transposed, parts_of
from .modules import CONV, LINEAR, STACKED
from .unchanged import evaluating

Role = Literal["encoder", "hidden", "head"]
Scope = str | tuple[str, ...]


@dataclass(frozen=True)
class Layer:
    """One layer with weights.

    Attributes:
        name: The qualified name of its module in the network.
        module: The module with the weights.
        role: Whether it belongs to the encoder, to the hidden layers or to a head.
        depth: Counts from the input; parallel layers share a depth.
        part: The word for its function in a larger design, such as `query`, which a scope may name, or "".
        split: Number of equal parts along its outputs that are separate matrices, such as 3 for a fused query, key and
            value.
        factor: Whether it is one of the two factors of an adapter's update, and not the map of a layer.
    """

    name: str
    module: nn.Module
    role: Role
    depth: int
    part: str = ""
    split: int = 1
    factor: bool = False

    @property
    def weight_name(self) -> str:
        """The qualified name of its weight in the network."""
        return f"{self.name}.weight".lstrip(".")

    @property
    def transposed(self) -> bool:
        """Whether the weight is stored as (d_in, d_out)."""
        return is_transposed(self.module)

    @property
    def stacked(self) -> bool:
        """Whether the layer belongs to a stack, so that the first dimension of its weight is the members."""
        return isinstance(self.module, STACKED)

    def words(self) -> set[str]:
        """Return the words of scopes that apply to the layer."""
        linear = isinstance(self.module, LINEAR) or self.transposed
        return {"all", self.role, self.part, "linear" if linear else "conv" if isinstance(self.module, CONV) else ""}

    @property
    def weight(self) -> Tensor:
        """The layer's weight as it is stored: a matrix or kernel, or those of all members, (members, …), if stacked.

        Raises ValueError if it is no parameter, because it is computed from others or quantised.
        """
        weight = self.module._parameters.get("weight")
        if weight is not None:
            return weight
        kind = type(self.module).__name__
        raise ValueError(f"'{self.name}' ({kind}) has no weight that can be written: it is parametrized or quantised")

    @property
    def kernel(self) -> Tensor:
        """The weight that the layer applies, with the outputs first: (d_out, d_in, *kernel), or (members, d_out, …).

        It is differentiable, and computed if the weight is parametrized. Write to `weight` instead.
        """
        if not is_parametrized(self.module, "weight"):
            weight: Tensor = self.module.weight  # type: ignore[assignment]
            return weight.mT if self.transposed else weight
        with evaluating(self.module):  # else spectral_norm would make a step of its power iteration
            return self.module.weight  # type: ignore[return-value]

    def matrices(self, kernel: Tensor) -> Tensor:
        """Return a kernel as the matrices (…, d_out, d_in) of its members, and of the parts of a fused layer."""
        rows = kernel.flatten(1 + self.stacked)
        return rows if self.split == 1 else rows.unflatten(-2, (self.split, -1))

    def describe(self, kernel: Tensor) -> Weight:
        """Return how a kernel forms matrices: the layer's `kernel`, or some members of it."""
        layout: Layout = "stacked" if self.stacked else "conv" if kernel.ndim > 2 else "linear"
        return Weight(self.name, kernel, layout, self.split)


def find_stack(module: nn.Module, layers: Iterable[Layer]) -> int:
    """Return the number of networks of which a module is a stack, or 0 if it is none.

    It is one if all its layers are stacks of that many, and no parameter belongs to several of the networks.
    """
    sizes = {len(layer.kernel) if layer.stacked else 0 for layer in layers}
    count = sizes.pop() if len(sizes) == 1 else 0
    return count if count and all(p.ndim > 0 and len(p) == count for p in module.parameters()) else 0


def trained_kernels(layers: Iterable[Layer]) -> dict[Tensor, Layer]:
    """Return the kernels of the layers that are trained → the layer, without the factors of adapters; a tied one once.

    What is quantised is not trained.
    """
    kernels = {layer.kernel: layer for layer in layers if not layer.factor}
    return {kernel: layer for kernel, layer in kernels.items() if kernel.requires_grad}


def require_trained(layers: Collection[Layer], whose: str) -> None:
    """Raise ValueError, which begins with `whose`, if the kernels of none of these layers are trained."""
    if not trained_kernels(layers):
        adapted = any(layer.factor for layer in layers)
        but = " but adapters, whose factors are the maps of no layer: merge them" if adapted else ""
        raise ValueError(f"{whose} is trained{but}")


def chain(module: nn.Module, prefix: str = "") -> tuple[Layer, ...]:
    """Return the Linear and Conv layers (stacked or not) of a plain feed-forward module, in order of definition.

    Linear layers include transformers' Conv1D. Those of a moving average of the weights beside the network
    (torch.optim.swa_utils) are left out. The first is the encoder, the last the head, and those between are hidden.
    """
    averages = [part for part in module.modules() if isinstance(part, AveragedModel)]
    copies = set() if module in averages else {part for average in averages for part in average.modules()}
    parts = [
        (n, m)
        for n, m in module.named_modules()
        if m not in copies and (isinstance(m, (*LINEAR, *CONV)) or is_transposed(m))
    ]
    last = len(parts) - 1
    roles: list[Role] = ["head" if i == last else "encoder" if i == 0 else "hidden" for i in range(len(parts))]
    factors = adapter_modules(module)
    return tuple(
        Layer(prefix + n, m, role, depth, split=parts_of(n, m), factor=m in factors)
        for depth, ((n, m), role) in enumerate(zip(parts, roles, strict=True))
    )
