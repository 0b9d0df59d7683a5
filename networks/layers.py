"""Layers with weights and their roles in a network."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from .wiring import CONV, LINEAR, STACKED

Role = Literal["encoder", "hidden", "head"]
Scope = str | tuple[str, ...]


@dataclass(frozen=True)
class Layer:
    """One layer with weights.

    `depth` counts from the input; parallel layers share a depth. `part` is the word for its function in a larger
    design, such as `query`, which a scope may name. `split`: number of equal parts along its outputs that are separate
    matrices, such as 3 for a fused query, key and value.
    """

    name: str
    module: nn.Module
    role: Role
    depth: int
    part: str = ""
    split: int = 1

    @property
    def stacked(self) -> bool:
        """Whether the layer belongs to a stack, so that the first dimension of its weight is the members."""
        return isinstance(self.module, STACKED)

    @property
    def weight(self) -> Tensor:
        """The layer's weight matrix or kernel, or those of all members, (members, …), if it is stacked.

        A parametrized layer (weight or spectral normalisation, pruning) computes it anew, see `stored`.
        """
        weight: Tensor = self.module.weight  # type: ignore[assignment]
        return weight

    @property
    def stored(self) -> bool:
        """Whether the weight is a parameter, which can be rewritten in place."""
        return self.module._parameters.get("weight") is not None

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """One weight per network: the layer's own, or that of each member of a stack."""
        return self.weight.unbind() if self.stacked else (self.weight,)


def chain(module: nn.Module, prefix: str = "") -> tuple[Layer, ...]:
    """Return the Linear and Conv layers (stacked or not) of a plain feed-forward module, in order of definition.

    The first is the encoder, the last the head, and those between are hidden.
    """
    found = [(n, m) for n, m in module.named_modules() if isinstance(m, (*LINEAR, *CONV))]
    last = len(found) - 1
    roles: list[Role] = ["head" if i == last else "encoder" if i == 0 else "hidden" for i in range(len(found))]
    return tuple(
        Layer(prefix + n, m, role, depth) for depth, ((n, m), role) in enumerate(zip(found, roles, strict=True))
    )
