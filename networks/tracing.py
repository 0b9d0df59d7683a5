"""The graph of a network's forward pass, traced with `torch.fx`, and the activations in it."""

import builtins
import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import fx, nn

from supple.registry import one_line

from .activation_calls import ActivationCall, function_name, parse_call_name
from .forward import RUN, Forward, unwrap, with_forward
from .modules import CONV, LINEAR, NORMS, OPAQUE, is_activation, is_transparent
from .unchanged import unchanged


def unit_names(module: nn.Module, forward: Forward = "forward") -> tuple[str, ...]:
    """Return the names of the activations that a Linear or Conv layer reads, directly or not, in forward order.

    Modules and functions count, each call on its own (see activation_calls.py). A nonlinearity of the network's output
    has no hidden units. If the network cannot be traced, they are the activation modules before the last layer, in the
    order of their definition.

    forward: The name of the method that runs the network, or a function of the module and the inputs.
    """
    traced = find_traced_units(module, forward)
    return _find_defined_units(module) if traced is None else traced


def find_traced_units(module: nn.Module, forward: Forward = "forward") -> tuple[str, ...] | None:
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
    calls = {name: parse_call_name(name) for name, node in outputs.items() if node in read}
    return tuple(name for name, call in calls.items() if call.function or is_activation(modules[call.path]))


def _find_defined_units(module: nn.Module) -> tuple[str, ...]:
    activations: list[str] = []
    hidden = 0
    for name, part in module.named_modules():
        if isinstance(part, (*LINEAR, *CONV)):
            hidden = len(activations)
        elif is_activation(part):
            activations.append(name)
    return tuple(activations[:hidden])


class Untraceable(ValueError):
    """The reason why a network cannot be traced. It completes a sentence that begins with the network's name."""


def trace(module: nn.Module, forward: Forward = "forward") -> tuple[fx.Graph, dict[str, fx.Node]]:
    """Return the graph of a forward pass in evaluation mode, and the nodes of outputs by the name of the call.

    The calls are those of modules and of activation functions, in the order in which they end. activation_calls.py has
    their names. Layers, norms and activations are single nodes of the graph. Raises Untraceable.
    """
    prefix, inner = unwrap(module)
    tracer = _Tracer()
    tracer.traced_func_name = "forward" if forward == "forward" else RUN
    try:
        with unchanged(module), _trace_lengths():
            # a copy, on which tensors that are no parameters become attributes
            graph = tracer.trace(copy.copy(with_forward(inner, forward)))
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
        why = one_line(error).partition(". ")[0].rstrip(".")[:120]
        raise Untraceable(f"cannot be traced ({why})") from error


@contextmanager
def _trace_lengths() -> Iterator[None]:
    """Let `len(x)` of a traced tensor be its number of rows, which torch.fx refuses otherwise."""
    length = len

    def rows(x: Any) -> Any:
        return x.size(0) if isinstance(x, fx.Proxy) else length(x)

    try:
        builtins.len = rows
        yield
    finally:
        builtins.len = length


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


class _Tracer(fx.Tracer):
    """Takes layers, norms and activations as they are, and remembers what each module put out."""

    proxy_buffer_attributes = True  # else an update of running statistics would happen while tracing

    def __init__(self) -> None:
        super().__init__()
        self.outputs: dict[ActivationCall, fx.Node] = {}
        self._calls: Counter[tuple[str, str]] = Counter()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        known = isinstance(m, (*LINEAR, *CONV, *NORMS)) or is_activation(m) or is_transparent(m)
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


def operation(node: fx.Node) -> str:
    """Return the name of the function or method that a node calls, or the kind of any other node."""
    if node.op == "call_method":
        return str(node.target)
    return str(getattr(node.target, "__name__", "")) if node.op == "call_function" else node.op
