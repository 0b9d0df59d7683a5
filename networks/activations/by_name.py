"""Activations of a network by name: the widths of the layers around them, and a module for each layer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from supple.registry import Call, bind, naming, parse_call

from .base import Activation, RandomActivation, Shared, activations


def activation(name: str, **params: Any) -> nn.Module:
    """Return a new activation module, such as `activation("smooth_leaky", alpha=0.3)`, for features outside a stack.

    Its inputs have the shape (…, features). In a network, use `Units`. It makes one module per layer, and supports
    images, stacks, and slopes for each unit.

    Raises:
        UnknownName: There is no such activation. The message suggests a similar name.
        ValueError: A parameter is unknown, has the wrong type or is out of range, or the activation needs `Units`.

    Examples:
        >>> import torch
        >>> from supple.interventions import activation
        >>> module = activation("leaky_relu", negative_slope=0.5)
        >>> module(torch.tensor([-2.0, 2.0]))
        tensor([-1.,  2.])
        >>> activation("rely")
        Traceback (most recent call last):
        supple.registry.names.UnknownName: unknown activation 'rely': did you mean 'relu'? (known: ...)
    """
    return _make_configured(name, params, None, -1, 0, {})


def parse_activation(text: str) -> nn.Module:
    """Return the activation of its text form, e.g. `relu` or `smooth_leaky(alpha=0.3,c=0.3,p=0.1)`.

    Raises CallSyntaxError for the form, otherwise as `activation`; all are ValueErrors.
    """
    call = parse_call(text)
    return activation(call.name, **call.params)


class Units:
    """A factory of the hidden units of one network, for an activation given as text.

    Args:
        text: As for `parse_activation`.
        members: The number of networks in a stack, whose tensors are (members, batch, …), each with parameters and
            draws of its own; 0 if there is no stack.

    Raises:
        ValueError: As for `activation`.

        units = Units("crelu")
        net = nn.Sequential(nn.Linear(784, units.preactivations(100)), units(100), nn.Linear(units.features(100), 10))

    Calling the object returns the activation module of one layer. With crelu, deep_fourier and swiglu, the numbers of
    pre-activations and features differ, so the layers on either side need `preactivations` and `features`. Use one
    object per network: with `prelu(granularity=global)`, all modules that come from one object share one slope.
    """

    def __init__(self, text: str, members: int = 0) -> None:
        self.text, self.members = text, members
        self._call: Call = parse_call(text)
        self._shared: Shared = {}
        self._kind = _make(self._call.name, self._call.params)

    def preactivations(self, width: int) -> int:
        """Return the number of outputs of the preceding layer, for a hidden layer of nominal width `width`.

        Raises ValueError for a width that the activation does not support (an odd one for crelu).
        """
        return self._kind.preactivations(width) if isinstance(self._kind, Activation) else width

    def features(self, width: int) -> int:
        """Return the number of inputs of the following layer, for a hidden layer of nominal width `width`."""
        return self._kind.features(width) if isinstance(self._kind, Activation) else width

    def __call__(self, width: int, axis: int = -1) -> nn.Module:
        """Return a new module for a layer of that width: (…, preactivations) → (…, features).

        Args:
            width: The nominal width of the layer.
            axis: The axis of the features: −1 where they come last, −3 for the channels of images (batch, C, H, W). It
                is counted from the end, so that a stack, (members, batch, …), has the same.
        """
        self.preactivations(width)
        return _make_configured(self._call.name, self._call.params, width, axis, self.members, self._shared)


def is_random(module: nn.Module) -> bool:
    """Return whether some activations in `module` draw random numbers in training."""
    return any(isinstance(part, RandomActivation) for part in module.modules())


def set_generators(module: nn.Module, generators: Sequence[torch.Generator]) -> None:
    """Set the generators of all randomised activations in `module`, one for each member (one outside a stack).

    A member then draws the same numbers as a separate network with the same generator. If a seed has several networks,
    one generator for each seed draws for these at once, as in a run of this seed alone. The caller keeps the
    generators, and saves their states in checkpoints. Raises ValueError for a number of generators that does not fit.
    """
    for name, part in module.named_modules():
        if isinstance(part, RandomActivation):
            if not generators or max(part.members, 1) % len(generators):
                raise ValueError(f"'{name}' needs {max(part.members, 1)} generators, not {len(generators)}")
            part.generators = generators


def _make(name: str, params: Any) -> nn.Module:
    factory = activations.get(name)
    with naming(f"making the activation {name}", factory):
        module: nn.Module = factory(**bind(factory, params, name))
    return module


def _make_configured(name: str, params: Any, width: int | None, axis: int, members: int, shared: Shared) -> nn.Module:
    module = _make(name, params)
    if isinstance(module, Activation):
        module.configure(width, axis, members, shared)
    return module
