"""Pairs of consecutive linear maps, between which a factor can move without a change of the function.

    y = W2·W1·x          "linear": nothing lies in between, and any invertible map of the hidden units cancels
    y = W2·φ(W1·x + b)   "homogeneous": φ elementwise with φ(c·z) = c·φ(z) for c > 0; a positive factor per unit cancels

Pairs are found in three ways. Modules declare them by a method `linear_pairs()` (LoRA's A and B). Linear layers follow
each other in the traced network with nothing, dropout or positive-homogeneous activations (relu, leaky_relu, prelu,
rrelu) between them. Or a track names the wiring, with units of such an activation between layers. Several layers that
read the same units form one map together. No pairs are formed by convolutions, by layers that are tied, used twice,
frozen or parametrized, or by layers around a module with hooks, which may change anything (nap's normalisation).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, fx, nn

from .activation_calls import parse_call_name
from .activations import Activation
from .forward import Forward
from .modules import LINEAR, qualified_name
from .tracing import Untraceable, operation, trace
from .wiring import Paths, Shared, Wiring

Between = Literal["linear", "homogeneous"]

HOMOGENEOUS = (nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.RReLU)
_DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)  # not AlphaDropout, which adds something
_FUNCTIONS = {"relu", "relu_", "leaky_relu", "leaky_relu_", "dropout", "dropout1d", "dropout2d", "dropout3d"}


@dataclass(frozen=True)
class LinearPair:
    """Two consecutive linear maps with h hidden units between them; in a stack, members come first (…).

    Attributes:
        name: The name of the pair in messages.
        first: The maps into the hidden units, (…, h, i) each. W1, (…, h, Σi), is their concatenation along the inputs.
        second: The maps that read the hidden units, (…, o, h) each. W2, (…, Σo, h), is their concatenation along the
            outputs.
        bias: The biases of `first`, (…, h) each. A bias counts as a column of W1, whose input is 1.
        between: What lies between the maps.
        parameters: Names of the learner's parameters that contain these tensors, in the order of `tensors`.

    Code that declares a pair must ensure that nothing else lies between the two maps or reads the hidden units.
    """

    name: str
    first: tuple[Tensor, ...]
    second: tuple[Tensor, ...]
    bias: tuple[Tensor, ...] = ()
    between: Between = "linear"
    parameters: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that change if the pair is rebalanced."""
        return (*self.first, *self.second, *self.bias)

    def matrices(self) -> tuple[Tensor, Tensor]:
        """Return W1 with the biases, (…, h, Σi), and W2, (…, Σo, h)."""
        return torch.cat([*self.first, *(b[..., None] for b in self.bias)], -1), torch.cat(self.second, -2)

    @property
    def hidden(self) -> int:
        return self.first[0].shape[-2]

    @property
    def inputs(self) -> int:
        """The number of columns of W1, including those of the biases."""
        return sum(w.shape[-1] for w in self.first) + len(self.bias)

    @property
    def outputs(self) -> int:
        return sum(w.shape[-2] for w in self.second)

    def on(self, copies: Mapping[Tensor, Tensor]) -> "LinearPair":
        """Return the same pair with other tensors."""
        first, second, bias = (tuple(copies[t] for t in part) for part in (self.first, self.second, self.bias))
        return replace(self, first=first, second=second, bias=bias)


def pair_of(name: str, first: Sequence[nn.Module], second: Sequence[nn.Module], between: Between) -> LinearPair:
    """Return the pair of two groups of layers (Linear or StackedLinear), with the biases of the first.

    Args:
        name: The name of the pair in messages.
        first: The layers into the hidden units.
        second: The layers that read the hidden units.
        between: What lies between them.
    """
    biases = tuple(layer.get_parameter("bias") for layer in first if getattr(layer, "bias", None) is not None)
    weights = [tuple(layer.get_parameter("weight") for layer in side) for side in (first, second)]
    return LinearPair(name, weights[0], weights[1], biases, between)


@dataclass(frozen=True)
class Joint:
    """A pair by the names of its modules.

    Attributes:
        first: The layer before the hidden units.
        second: The layers after them.
        through: The modules in between.
        between: What these are, as in `LinearPair`.
    """

    first: str
    second: tuple[str, ...]
    through: tuple[str, ...]
    between: Between


def find_declared_pairs(module: nn.Module) -> Iterator[LinearPair]:
    """Yield the pairs that a module and its submodules declare, with the names of their parameters in the module."""
    for prefix, part in module.named_modules():
        if callable(declare := getattr(part, "linear_pairs", None)):
            for pair in declare():
                names = tuple(qualified_name(prefix, name) for name in pair.parameters)
                yield replace(pair, name=qualified_name(prefix, pair.name), parameters=names)


def find_joints(
    module: nn.Module, wiring: Mapping[str, Wiring] | None, forward: Forward = "forward"
) -> Iterator[Joint]:
    """Yield the pairs of a network by name; none if it cannot be traced.

    wiring: the layers before and after each module of units. If None, the network is traced. forward: as in
    `unit_names`.
    """
    if wiring is not None:
        yield from _wiring_joints(module, wiring)
        return
    try:
        graph, _ = trace(module, forward)
    except Untraceable:
        return
    paths = Paths(module, graph)
    for node in graph.nodes:
        if node.op == "call_module" and isinstance(paths.modules[str(node.target)], LINEAR):
            with suppress(Shared):
                yield _joint_from(node, paths)


def pair_at(module: nn.Module, joint: Joint) -> LinearPair | None:
    """Return the pair at a joint for the current modules, or None if one is no plain layer, frozen or has a hook."""
    names = (joint.first, *joint.second)
    first, *second = layers = [module.get_submodule(name) for name in names]
    between = [module.get_submodule(name) for name in joint.through]
    if any(part._forward_hooks or part._forward_pre_hooks for part in (*layers, *between)):
        return None
    if any(type(layer) not in LINEAR or layer._parameters.get("weight") is None for layer in layers):
        return None
    biases = (f"{joint.first}.bias",) if getattr(first, "bias", None) is not None else ()
    pair = pair_of(" and ".join(names), [first], second, joint.between)
    hidden = pair.first[0].shape[:-1]  # (…, h)
    fit = all((*w.shape[:-2], w.shape[-1]) == tuple(hidden) for w in pair.second)
    if not fit or not all(tensor.requires_grad for tensor in pair.tensors):
        return None
    return replace(pair, parameters=(*(f"{name}.weight" for name in names), *biases))


def is_homogeneous(module: nn.Module) -> bool:
    """Return whether an activation is elementwise with φ(c·z) = c·φ(z) for c > 0, given the same random draws."""
    return type(module) in HOMOGENEOUS or (isinstance(module, Activation) and module.homogeneous)


def _joint_from(node: fx.Node, paths: Paths) -> Joint:
    """Return the joint that begins at a Linear layer. Raises Shared if there is none."""
    second, through, direct = [], [], True
    for reader in paths.ways_on(node):
        name, part = str(reader.target), paths.modules[str(reader.target)] if reader.op == "call_module" else None
        if isinstance(part, LINEAR):
            second.append(name)
            continue
        direct &= isinstance(part, nn.Identity)
        if part is not None and (type(part) in (nn.Identity, *_DROPOUT) or is_homogeneous(part)):
            through.append(name)
        elif operation(reader) not in _FUNCTIONS:
            raise Shared("is followed by what is neither linear nor positive-homogeneous")
    if not second:
        raise Shared("is read by nothing")
    paths.check_private(str(node.target), *second)
    return Joint(str(node.target), tuple(second), tuple(through), "linear" if direct else "homogeneous")


def _wiring_joints(module: nn.Module, wiring: Mapping[str, Wiring]) -> Iterator[Joint]:
    """Yield the joints at the units of a wiring, trusting that nothing else is around these."""
    for unit, wires in wiring.items():
        call = parse_call_name(unit)
        called = None if call.function else module.get_submodule(call.path)
        alike = [other for other, others in wiring.items() if set(others.incoming) & set(wires.incoming)]
        homogeneous = call.function in _FUNCTIONS if called is None else is_homogeneous(called)
        private = len(wires.incoming) == len(alike) == 1 and wires.outgoing and not wires.norms
        if homogeneous and private:
            yield Joint(wires.incoming[0], wires.outgoing, () if called is None else (call.path,), "homogeneous")
