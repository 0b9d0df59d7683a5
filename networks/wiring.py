"""Connections of hidden units, found by tracing a network with `torch.fx`.

An intervention on single units rewrites the rows of the layer before them and the columns of the layers after them. It
may do so if these belong to the units only: one layer, used once, feeds them and nothing else, and every path from them
ends in a Linear or Conv layer. If a sum (the residual stream), a product, a softmax, a concatenation or the network's
output is on a path, others depend on the units. The columns must also be those of the units: a Linear layer reads the
channels of a convolution behind a flattening only. Such units are left out, with the reason.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, fx, nn

from .activations import Activation
from .calls import ActivationCall, function_name, parse_call_name
from .forward import Forward, unwrapped, with_forward
from .layout import CHANNELS, FLAT, UNITS, Layout, Mixed, after
from .stacked import StackedConv2d, StackedLayerNorm, StackedLinear
from .unchanged import unchanged

LINEAR = (nn.Linear, StackedLinear)
CONV = (nn.Conv1d, nn.Conv2d, nn.Conv3d, StackedConv2d)
STACKED = (StackedLinear, StackedConv2d)
BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
INSTANCE_NORM = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
LAYER_NORM = (nn.LayerNorm, nn.RMSNorm, StackedLayerNorm)
NORMS = (*BATCH_NORM, *INSTANCE_NORM, nn.GroupNorm, *LAYER_NORM)
# Modules of torch that call activations inside, where tracing does not look.
OPAQUE = (nn.Transformer, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
# What torch files under its activations and is no elementwise nonlinearity.
NO_UNITS = (nn.MultiheadAttention, nn.Softmax, nn.Softmax2d, nn.Softmin, nn.LogSoftmax)

_ACTIVATIONS = (nn.modules.activation.__name__, "transformers.activations")
# Modules through which every unit keeps to itself: by the file in which torch defines them.
_TRANSPARENT = tuple(f"torch.nn.modules.{kind}" for kind in ("dropout", "pooling", "flatten"))
# Functions and methods of which the same is true; of any other it is not known.
_APART = {
    *("relu", "relu_", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu", "silu", "mish", "softplus", "hardtanh"),
    *("tanh", "sigmoid", "hardswish", "hardsigmoid", "sin", "cos", "abs"),
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"),
    *(f"{pool}{d}d" for pool in ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool") for d in (1, 2, 3)),
    *("flatten", "unflatten", "view", "reshape", "contiguous", "clone", "float", "to"),
}  # fmt: skip
_NAMED = {"add": "the residual addition", "cat": "the concatenation", "mul": "the product", "matmul": "the product"}


@dataclass(frozen=True)
class Wiring:
    """The connections of hidden units: the layers before them (incoming), and the layers that read them (outgoing).

    norms: the normalisations in between that have a gain, a shift or running statistics for each of the units.
    """

    incoming: tuple[str, ...]
    outgoing: tuple[str, ...]
    norms: tuple[str, ...] = ()


def is_activation(module: nn.Module) -> bool:
    """Return whether a module is an activation of PyTorch, of `transformers` or of this package."""
    return isinstance(module, Activation) or (
        type(module).__module__ in _ACTIVATIONS and not isinstance(module, NO_UNITS)
    )


def unit_names(module: nn.Module, forward: Forward = "forward") -> tuple[str, ...]:
    """Return the names of the activations that a Linear or Conv layer reads, directly or not, in forward order.

    Modules and functions count, each call on its own (see calls.py). A nonlinearity of the network's output has no
    hidden units. If the network cannot be traced, they are the activation modules before the last layer, in the order
    of their definition.

    forward: The name of the method that runs the network, or a function of the module and the inputs.
    """
    traced = traced_units(module, forward)
    return _defined_units(module) if traced is None else traced


def traced_units(module: nn.Module, forward: Forward = "forward") -> tuple[str, ...] | None:
    """Return `unit_names` of a network that can be traced, else None."""
    if any(isinstance(part, OPAQUE) for part in module.modules()):
        return None
    try:
        graph, outputs = trace(module, forward)
    except Untraceable:
        return None
    modules = dict(module.named_modules())
    read: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        layer = node.op == "call_module" and isinstance(modules[str(node.target)], (*LINEAR, *CONV))
        if layer or node in read:
            read.update(node.all_input_nodes)
    return tuple(name for name, node in outputs.items() if node in read and is_activation_call(modules, name))


def is_activation_call(modules: Mapping[str, nn.Module], name: str) -> bool:
    """Return whether a name is that of a call of an activation, for the modules of a network by name."""
    call = parse_call_name(name)
    return bool(call.function) or (call.path in modules and is_activation(modules[call.path]))


def _defined_units(module: nn.Module) -> tuple[str, ...]:
    found: list[str] = []
    hidden = 0
    for name, part in module.named_modules():
        if isinstance(part, (*LINEAR, *CONV)):
            hidden = len(found)
        elif is_activation(part):
            found.append(name)
    return tuple(found[:hidden])


def layer_before(module: nn.Module, unit: str) -> nn.Module | None:
    """Return the last Linear or Conv layer that is defined before the module `unit`, or in it; None if there is none.

    None also for a function, which is defined nowhere.
    """
    if parse_call_name(unit).function:
        return None
    unit = parse_call_name(unit).path
    found, seen = None, False
    for name, part in module.named_modules():
        inside = name == unit or name.startswith(f"{unit}.")
        if seen and not inside:
            break
        seen = inside
        found = part if isinstance(part, (*LINEAR, *CONV)) else found
    return found


def trace_wiring(
    module: nn.Module, units: Sequence[str], forward: Forward = "forward"
) -> tuple[dict[str, Wiring], dict[str, str]]:
    """Return the wiring of the `units` that do not share weights, and for each other one the reason why it has none.

    A reason completes a sentence that begins with the unit's name. Widths are not checked.

    units: names of calls of activations, or of any other modules whose outputs count as units. forward: as in
    `unit_names`.
    """
    with unchanged(module):  # a parametrized weight computes itself, and changes its buffers, when it is read
        return _trace_wiring(module, units, forward)


def _trace_wiring(
    module: nn.Module, units: Sequence[str], forward: Forward
) -> tuple[dict[str, Wiring], dict[str, str]]:
    try:
        graph, outputs = trace(module, forward)
    except Untraceable as error:
        return {}, dict.fromkeys(units, f"lies in a network that {error}: name the wiring (Learner.wiring)")
    paths = Paths(module, graph)
    wiring, reasons = {}, {}
    for unit in units:
        try:
            wiring[unit] = paths.around(outputs.get(unit))
        except (Shared, Mixed) as reason:
            reasons[unit] = str(reason)
    return wiring, reasons


class Untraceable(ValueError):
    """The reason why a network cannot be traced. It completes a sentence that begins with the network's name."""


def trace(module: nn.Module, forward: Forward = "forward") -> tuple[fx.Graph, dict[str, fx.Node]]:
    """Return the graph of a forward pass in evaluation mode, and the nodes of outputs by the name of the call.

    The calls are those of modules and of activation functions, in the order in which they end (see calls.py).

    Layers, norms and activations are single nodes of the graph. Raises Untraceable.
    """
    prefix, inner = unwrapped(module)
    tracer = _Tracer()
    try:
        # a tensor that is no parameter becomes an attribute of the module
        with unchanged(module), _lengths_traced(inner):
            graph = tracer.trace(with_forward(inner, forward))
        _follow_writes(graph, inner)
        kept = set(graph.nodes)  # the tracer drops what nothing reads
        for node in kept:
            if node.op in ("call_module", "get_attr"):
                node.target = f"{prefix}{node.target}"
        return graph, {
            str(replace(call, path=f"{prefix}{call.path}".rstrip("."))): node
            for call, node in tracer.outputs.items()
            if node in kept
        }
    except Exception as error:  # a forward pass may do anything with inputs that are not tensors
        lines = str(error).strip().splitlines() or [type(error).__name__]
        why = lines[0].partition(". ")[0].rstrip(".")[:120]
        raise Untraceable(f"cannot be traced ({why})") from error


@contextmanager
def _lengths_traced(module: nn.Module) -> Iterator[None]:
    """Let `len(x)` of a traced tensor be its number of rows, in the code of a network's modules."""
    spaces = {id(s): s for part in module.modules() if (s := getattr(type(part).forward, "__globals__", None))}
    patched = [s for s in spaces.values() if "len" not in s and not str(s.get("__name__")).startswith("torch")]
    try:
        for space in patched:
            space["len"] = lambda x: x.size(0) if isinstance(x, fx.Proxy) else len(x)
        yield
    finally:
        for space in patched:
            del space["len"]


def _follow_writes(graph: fx.Graph, module: nn.Module) -> None:
    """Let those who read a tensor after an operation in place (`x.relu_()`) read the result of the operation."""
    order = {node: index for index, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if node.all_input_nodes and _writes(node, module):
            written = node.all_input_nodes[0]
            for reader in list(written.users):
                if order[reader] > order[node]:
                    reader.replace_input_with(written, node)


def _writes(node: fx.Node, module: nn.Module) -> bool:
    """Return whether a node works in place."""
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(str(node.target)), "inplace", False))
    named = operation(node).endswith("_") and not operation(node).endswith("__")
    asked = node.kwargs.get("inplace", False) or (function_name(operation(node)) and True in node.args[1:])
    return node.op in ("call_method", "call_function") and bool(named or asked)


class Shared(Exception):
    """The reason why units share weights with others. It completes a sentence that begins with their name."""


class _Tracer(fx.Tracer):
    """Takes layers, norms and activations as they are, and remembers what each module put out."""

    proxy_buffer_attributes = True  # else an update of running statistics would happen while tracing

    def __init__(self) -> None:
        super().__init__()
        self.outputs: dict[ActivationCall, fx.Node] = {}
        self._calls: Counter[tuple[str, str]] = Counter()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        known = isinstance(m, (*LINEAR, *CONV, *NORMS)) or is_activation(m) or _is_transparent(m)
        return known or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        output = super().call_module(m, forward, args, kwargs)
        if isinstance(output, fx.Proxy):
            self._note(output.node, self.path_of_module(m))
        return output

    def create_node(self, kind: str, target: Any, *rest: Any, **named: Any) -> fx.Node:
        node = super().create_node(kind, target, *rest, **named)
        if kind in ("call_function", "call_method") and (function := function_name(target)):
            self._note(node, self.node_name_to_scope[node.name][0], function)
        return node

    def _note(self, node: fx.Node, path: str, function: str = "") -> None:
        self._calls[path, function] += 1
        self.outputs[ActivationCall(path, function, self._calls[path, function])] = node


class Paths:
    """The paths through a traced network from units back to the layer before them, and on to the layers after them."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        self.modules: dict[str, nn.Module] = dict(module.named_modules())
        self.calls = Counter(str(node.target) for node in graph.nodes if node.op == "call_module")
        self.owners: Counter[Tensor] = Counter(
            p for part in self.modules.values() for p in part.parameters(recurse=False)
        )
        self.loose = {str(node.target) for node in graph.nodes if node.op == "get_attr"}  # tensors read by functions

    def around(self, node: fx.Node | None) -> Wiring:
        """Return the wiring of the units that a node returns.

        Raises Shared if they share weights with others, and Mixed if no column of the layers after them belongs to one
        unit.
        """
        if node is None:
            raise Shared("is used nowhere")
        if node.op == "call_module" and self.calls[str(node.target)] > 1 and has_parameters(self.modules, node):
            raise Shared(f"shares the parameters of '{node.target}': it is used repeatedly")
        incoming, norms, way = self._back(node)
        layout = CHANNELS if isinstance(self.modules[incoming], CONV) else UNITS
        for step in way:
            layout = self._after(step, layout, incoming)
        outgoing = list(dict.fromkeys(self._on(node, layout, norms, incoming)))
        if not outgoing:
            raise Shared("has no layer after it")
        self.check_private(incoming, *norms, *outgoing)
        return Wiring((incoming,), tuple(outgoing), tuple(norms))

    def _after(self, node: fx.Node, layout: Layout, incoming: str) -> Layout:
        """Return where the units lie behind this node."""
        part = self.modules[str(node.target)] if node.op == "call_module" else None
        if isinstance(part, (*NORMS, *LINEAR, *CONV)) or (part is not None and is_activation(part)):
            return layout
        stacked = isinstance(self.modules[incoming], STACKED)
        return after(node, part, operation(node), layout, self.modules[incoming], stacked, self.describe(node))

    def check_private(self, *layers: str) -> None:
        """Raise Shared if a layer is tied to another or used twice, or if its parameters are used elsewhere."""
        for name in layers:
            own = dict(self.modules[name].named_parameters(recurse=False))
            why = ""
            if any(self.owners[p] > 1 for p in own.values()):
                why = "they are tied"
            elif self.calls[name] > 1:
                why = "it is used repeatedly"
            elif any(f"{name}.{p}" in self.loose for p in own):
                why = "something else reads them too"
            if why:
                raise Shared(f"shares the weights of '{name}': {why}")

    def _back(self, node: fx.Node) -> tuple[str, list[str], list[fx.Node]]:
        """Return the layer that feeds this node and nothing else, the norms on the way, and all nodes on the way."""
        norms: list[str] = []
        way: list[fx.Node] = []
        while not self._is(node, (*LINEAR, *CONV)):
            if self._is(node, NORMS):
                norms.append(str(node.target))
            elif not self._keeps_apart(node):
                if node.op in ("placeholder", "get_attr"):
                    raise Shared("has no layer before it")
                raise Shared(f"has no private incoming weights: its inputs come from {self.describe(node)}")
            way.append(node)
            node = self._main_input(node)
            if len(reading := list(readers(node))) > 1:
                others = " and ".join(map(self.describe, reading))
                raise Shared(f"has no private incoming weights: {self.describe(node)} is read by {others}")
        return str(node.target), norms, way[::-1]

    def _main_input(self, node: fx.Node) -> fx.Node:
        """Return the node whose values a node passes on; the others are sizes."""
        if node.op == "call_module" or not node.args or not isinstance(node.args[0], fx.Node):
            return node.all_input_nodes[0]
        return node.args[0]

    def _on(self, node: fx.Node, layout: Layout, norms: list[str], incoming: str) -> Iterator[str]:
        """Yield the layers where the ways on from this node end; norms of the units on the way join `norms`."""
        for reader in readers(node):
            if self._is(reader, (*LINEAR, *CONV)):
                wanted = (CHANNELS,) if self._is(reader, CONV) else (UNITS, FLAT)
                if layout not in wanted:
                    raise Mixed(
                        f"has no private outgoing weights: {self.describe(reader)} reads another axis than that of "
                        f"the units of '{incoming}'"
                    )
                yield str(reader.target)
                continue
            if self._is(reader, NORMS):
                if self._width(name := str(reader.target)) == self._width(incoming):
                    norms.append(name)
            elif not self._keeps_apart(reader):
                where = "are the network's output" if reader.op == "output" else f"reach {self.describe(reader)}"
                raise Shared(f"has no private outgoing weights: its outputs {where}")
            yield from self._on(reader, self._after(reader, layout, incoming), norms, incoming)

    def _is(self, node: fx.Node, kinds: tuple[type[nn.Module], ...]) -> bool:
        return node.op == "call_module" and isinstance(self.modules[str(node.target)], kinds)

    def _keeps_apart(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            part = self.modules[str(node.target)]
            return is_activation(part) or _is_transparent(part)
        return operation(node) in _APART

    def describe(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"'{node.target}' ({type(self.modules[str(node.target)]).__name__})"
        word = _NAMED.get(operation(node).strip("_").removeprefix("i"))
        return f"{word} '{node.name}'" if word else f"'{node.name}'"

    def _width(self, name: str) -> int:
        """Return the outputs of a layer, or the gains of a norm; 0 of a norm that has nothing of its own for a unit."""
        part = self.modules[name]
        own = getattr(part, "weight", None)
        if own is None:
            own = getattr(part, "running_mean", None)
        if own is None:
            return 0
        return int(own.shape[-1] if isinstance(part, NORMS) else own.shape[isinstance(part, STACKED)])


def has_parameters(modules: Mapping[str, nn.Module], node: fx.Node) -> bool:
    return any(True for _ in modules[str(node.target)].parameters())


def _is_transparent(part: nn.Module) -> bool:
    return type(part) is nn.Identity or any(kind.__module__ in _TRANSPARENT for kind in type(part).__mro__)


def operation(node: fx.Node) -> str:
    """Return the name of the function or method that a node calls, or the kind of any other node."""
    if node.op == "call_method":
        return str(node.target)
    return str(getattr(node.target, "__name__", "")) if node.op == "call_function" else node.op


def readers(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the nodes that read the values of a node, and not only its shape."""
    for user in node.users:
        shape = user.op == "call_method" and user.target in ("size", "dim", "numel")
        if not shape and not (operation(user) == "getattr" and user.args[1] in ("shape", "ndim", "dtype", "device")):
            yield user
