"""The base classes of this package's activations: registration, layout, randomness and checks."""

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from supple.registry import Registry

activations: Registry[Callable[..., nn.Module]] = Registry("activation", groups=("supple.activations",))
Shared = dict[str, nn.Parameter]  # parameters that all activations of one network have in common, by name


class Activation(nn.Module):
    """An activation that is not an elementwise function, or is not one of PyTorch's.

    The output has the shape of the input unless a class says otherwise. `configure` sets `axis` and `members`. Before
    that call, a module expects features outside a stack.

    Attributes:
        axis: −1 for features (…, features), −3 for images (…, channels, height, width).
        members: In a stack of networks, the size of the first dimension; 0 if there is no stack.
        homogeneous: Whether φ(c·x) = c·φ(x) for c > 0, for each unit by itself.
    """

    axis: int = -1
    members: int = 0
    homogeneous: bool = False

    def __init__(self) -> None:  # nn.Module's own would let any parameter pass the check against the signature
        super().__init__()

    def configure(self, width: int | None, axis: int, members: int, shared: Shared) -> None:
        """Tell the module about its network.

        Args:
            width: Width of the layer; None if unknown.
            axis: Axis of the features or channels.
            members: Number of networks in the stack; 0 if there is no stack.
            shared: The parameters that all activations of the network share, by name.
        """
        self.axis, self.members = axis, members

    def extra_repr(self) -> str:
        known = [name for name in inspect.signature(type(self)).parameters if hasattr(self, name)]
        return ", ".join(f"{name}={getattr(self, name)}" for name in known)

    def preactivations(self, width: int) -> int:
        """Return the number of outputs of the preceding layer, for a hidden layer of nominal width `width`."""
        return width

    def features(self, width: int) -> int:
        """Return the number of inputs of the following layer, for a hidden layer of nominal width `width`."""
        return width

    def alone(self) -> Self:
        """Return a copy for one unit outside a stack, in float64 and eval mode; learned values are averaged."""
        unit = copy.deepcopy(self).to("cpu", torch.float64).eval()
        if self.members:
            for name, value in unit.named_parameters():
                setattr(unit, name, nn.Parameter(value.detach().mean(0)))
        unit.axis, unit.members = -1, 0
        return unit

    def inputs(self, x: Tensor) -> Tensor:
        """Return the input of an `alone` module at the pre-activations x: (n,) → (n, 1)."""
        return x[:, None]

    def along(self, values: Tensor, x: Tensor) -> Tensor:
        """Return values per unit, (units or 1,) or (members, units or 1), in a shape that broadcasts to x."""
        shape = [1] * x.ndim
        shape[self.axis] = values.shape[-1]
        if self.members:
            shape[0] = self.members
        return values.reshape(shape)


class RandomActivation(Activation):
    """An activation that draws random numbers in training mode, and uses their mean in evaluation mode.

    Attributes:
        generators: One torch.Generator for each member of a stack, or one for several of them that draws for them at
            once; one outside a stack. A stack of seeds then draws the same numbers as separate runs. None: PyTorch's
            global generator of the input's device. With generators, call `draw_ahead` before each pass of compiled
            code.
        ahead: What the next pass will draw, while draws are made ahead of it; else None.
    """

    generators: Sequence[torch.Generator] | None = None
    ahead: Tensor | None = None

    def draw(self, x: Tensor, shape: Sequence[int] = ()) -> Tensor:
        """Return numbers from U(0, 1) of this shape, (members, *shape) in a stack, with the dtype and device of x."""
        if self.ahead is not None:
            return self.ahead
        if self.generators is None:
            size = (self.members, *shape) if self.members else tuple(shape)
            return torch.rand(size, device=x.device, dtype=x.dtype)
        size = (self.members // len(self.generators), *shape) if self.members else tuple(shape)
        draws = [torch.rand(size, generator=g, device=x.device, dtype=x.dtype) for g in self.generators]
        self.last = torch.cat(draws) if self.members else draws[0]
        return self.last

    def draw_ahead(self) -> None:
        """Draw the numbers for the next pass, in the shape of the last one: compiled code cannot use generators."""
        if self.generators is None:
            return
        if self.ahead is None:
            self.ahead = self.last
        parts = self.ahead.chunk(len(self.generators)) if self.members else (self.ahead,)
        for drawn, generator in zip(parts, self.generators, strict=True):
            torch.rand(drawn.shape, generator=generator, out=drawn)


class RandomSlope(RandomActivation):
    """An activation with a slope ~ U(lower, upper) for each element in training, and its mean in evaluation mode."""

    def __init__(self, where: str, lower: float, upper: float) -> None:
        super().__init__()
        self.lower, self.upper = ordered(where, lower, upper)

    def slope(self, x: Tensor, shape: Sequence[int] | None = None) -> Tensor | float:
        """Return the slopes for a forward pass on x: in training of this shape, by default that of x in one network."""
        if not self.training:
            return (self.lower + self.upper) / 2
        each = x.shape[1:] if self.members else x.shape
        return self.lower + (self.upper - self.lower) * self.draw(x, each if shape is None else shape)


def finite(where: str, lowest: float = -math.inf, **param: float) -> float:
    [(name, value)] = param.items()
    if not lowest < value < math.inf:
        raise ValueError(f"{where}: {name} must be {'finite' if lowest < 0 else 'positive and finite'}, not {value}")
    return value


def positive(where: str, **param: float) -> float:
    return finite(where, 0.0, **param)


def ordered(where: str, lower: float, upper: float) -> tuple[float, float]:
    if finite(where, lower=lower) > finite(where, upper=upper):
        raise ValueError(f"{where}: lower must not exceed upper, but {lower} > {upper}")
    return lower, upper
