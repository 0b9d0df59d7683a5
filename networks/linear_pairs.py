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
) -> tuple[list[Joint], list[str]]:
    """Return the pairs of a network by name, and for each other layer the reason why it forms none.

    wiring: the layers before and after each module of units. If None, the network is traced. forward: as in
    `unit_names`.
    """
    if not any(isinstance(part, LINEAR) for part in module.modules()):
        return [], ["it has no Linear layers, and convolutions form no pairs"]
    try:
        starts = list(_trace_joints(module, forward)) if wiring is None else list(_wiring_joints(module, wiring))
    except Untraceable as error:
        return [], [f"it {error}"]
    return [x for x in starts if isinstance(x, Joint)], [x for x in starts if isinstance(x, str)]


def pair_at(module: nn.Module, joint: Joint) -> LinearPair | str:
    """Return the pair at a joint for the current modules, or the reason why it is none."""
    parts = {name: module.get_submodule(name) for name in (joint.first, *joint.second, *joint.through)}
    for name, part in parts.items():
        if part._forward_hooks or part._forward_pre_hooks:
            return f"'{name}' has a hook, which may do anything"
    second = [parts[name] for name in joint.second]
    for name in (joint.first, *joint.second):
        if type(parts[name]) not in LINEAR or parts[name]._parameters.get("weight") is None:
            return f"'{name}' is no plain Linear layer, but {type(parts[name]).__name__}"
    pair = pair_of(" and ".join((joint.first, *joint.second)), [parts[joint.first]], second, joint.between)
    if not all(tensor.requires_grad for tensor in pair.tensors):
        return f"some weights of {pair.name} are frozen"
    hidden = pair.first[0].shape
    for name, w2 in zip(joint.second, pair.second, strict=True):
        if (*w2.shape[:-2], w2.shape[-1]) != tuple(hidden[:-1]):
            return f"'{name}' reads {w2.shape[-1]} units, and '{joint.first}' feeds {hidden[-2]}"
    biases = [f"{joint.first}.bias"] if pair.bias else []
    return replace(pair, parameters=(*(f"{name}.weight" for name in (joint.first, *joint.second)), *biases))


def is_homogeneous(module: nn.Module) -> bool:
    """Return whether an activation is elementwise with φ(c·z) = c·φ(z) for c > 0, given the same random draws."""
    return type(module) in HOMOGENEOUS or (isinstance(module, Activation) and module.homogeneous)


def _trace_joints(module: nn.Module, forward: Forward) -> Iterator[Joint | str]:
    """Yield what begins at each Linear layer of the graph: a joint, or the reason why there is none."""
    graph, _ = trace(module, forward)
    paths = Paths(module, graph)
    for node in graph.nodes:
        if node.op == "call_module" and isinstance(paths.modules[str(node.target)], LINEAR):
            try:
                yield _joint_from(node, paths)
            except Shared as shared:
                yield f"'{node.target}' {shared}"


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
        elif reader.op == "output":
            raise Shared("is read by the network's output")
        elif operation(reader) not in _FUNCTIONS:
            raise Shared(f"is followed by {paths.describe(reader)}, which is neither linear nor positive-homogeneous")
    if not second:
        raise Shared("is read by nothing")
    paths.check_private(str(node.target), *second)
    return Joint(str(node.target), tuple(second), tuple(through), "linear" if direct else "homogeneous")


def _wiring_joints(module: nn.Module, wiring: Mapping[str, Wiring]) -> Iterator[Joint | str]:
    """Yield the same of the layers that a wiring names before units, trusting that nothing else is around these."""
    for unit, wires in wiring.items():
        call = parse_call_name(unit)
        called = None if call.function else module.get_submodule(call.path)
        alike = [other for other, others in wiring.items() if set(others.incoming) & set(wires.incoming)]
        if not (call.function in _FUNCTIONS if called is None else is_homogeneous(called)):
            yield f"'{unit}' ({call.function or type(called).__name__}) is not positive-homogeneous"
        elif wires.norms or len(wires.incoming) != 1 or len(alike) != 1 or not wires.outgoing:
            yield f"'{unit}' has more than one layer before it, a norm around it, or no layer after it"
        else:
            yield Joint(wires.incoming[0], wires.outgoing, () if called is None else (call.path,), "homogeneous")
