"""Connections of hidden units, found by tracing a network.

An intervention on single units rewrites the rows of the layer before them and the columns of the layers after them. It
may do so if these belong to the units only: one layer, used once, feeds them and nothing else, and every path from them
ends in a Linear or Conv layer. If a sum (the residual stream), a product, a softmax, a concatenation or the network's
output is on a path, others depend on the units. Such units are left out, with the reason. The columns must also be
those of the units: a Linear layer reads the channels of a convolution behind a flattening only. Tracing does not know
shapes, so this is checked on the first inputs (`recording.find_misread_units`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass

from torch import Tensor, fx, nn

from .activation_calls import FUNCTIONS, parse_call_name
from .forward import Forward
from .modules import CONV, LINEAR, NORMS, STACKED, is_activation, is_transparent
from .tracing import Untraceable, operation, trace
from .unchanged import unchanged

# Functions and methods through which every unit keeps to itself; of any other it is not known.
_APART = {
    *(FUNCTIONS - {"glu", "prelu"}),
    *("sin", "cos", "abs"),
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"),
    *(f"{pool}{d}d" for pool in ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool") for d in (1, 2, 3)),
    *("flatten", "unflatten", "view", "reshape", "contiguous", "clone", "float", "to"),
}  # fmt: skip
_ARITHMETIC = ("add", "sub", "mul", "truediv", "div")  # with a number, not with another tensor


@dataclass(frozen=True)
class Wiring:
    """The connections of hidden units, by the names of modules.

    Attributes:
        incoming: The layers before the units.
        outgoing: The layers that read them.
        norms: The normalisations in between that have a gain, a shift or running statistics for each of the units.
    """

    incoming: tuple[str, ...]
    outgoing: tuple[str, ...]
    norms: tuple[str, ...] = ()


def layer_before(module: nn.Module, unit: str) -> nn.Module | None:
    """Return the last Linear or Conv layer that is defined before the module `unit`, or in it; None if there is none.

    None also for a function, which is defined nowhere.
    """
    call = parse_call_name(unit)
    if call.function:
        return None
    named = list(module.named_modules())
    inside = [i for i, (name, _) in enumerate(named) if name == call.path or name.startswith(f"{call.path}.")]
    before = [part for _, part in named[: max(inside, default=-1) + 1] if isinstance(part, (*LINEAR, *CONV))]
    return before[-1] if before else None


def trace_wiring(
    module: nn.Module, units: Sequence[str], forward: Forward = "forward"
) -> tuple[dict[str, Wiring], dict[str, str]]:
    """Return the wiring of the `units` that do not share weights, and for each other one the reason why it has none.

    A reason completes a sentence that begins with the unit's name. Widths are not checked. A part of the network may
    name the wiring of its units itself: `part.wiring` maps the names of units to `Wiring`, all as in the part.

    Args:
        module: The network.
        units: The names of calls of activations, or of any other modules whose outputs count as units.
        forward: As in `unit_names`.
    """
    wiring, reasons = _trace_wiring(module, units, forward)
    for path, part in module.named_modules():
        given, prefix = getattr(part, "wiring", None), f"{path}." if path else ""
        for unit, wires in given.items() if isinstance(given, Mapping) else ():
            if isinstance(wires, Wiring) and f"{prefix}{unit}" in units:
                whole = (tuple(f"{prefix}{name}" for name in names) for names in astuple(wires))
                wiring[f"{prefix}{unit}"] = Wiring(*whole)
    return wiring, {unit: why for unit, why in reasons.items() if unit not in wiring}


def _trace_wiring(
    module: nn.Module, units: Sequence[str], forward: Forward
) -> tuple[dict[str, Wiring], dict[str, str]]:
    """Return the wiring that tracing finds, and the reasons why units have none."""
    if not units:
        return {}, {}
    try:
        graph, outputs = trace(module, forward)
    except Untraceable as error:
        return {}, dict.fromkeys(units, f"lies in a network that {error}: name the wiring (Learner.wiring)")
    wiring, reasons = {}, {}
    with unchanged(module):  # a parametrized weight computes itself, and changes its buffers, when it is read
        paths = Paths(module, graph)
        for unit in units:
            try:
                wiring[unit] = paths.around(outputs.get(unit))
            except Shared as reason:
                reasons[unit] = str(reason)
    return wiring, reasons


class Shared(Exception):
    """The reason why units share weights with others. It completes a sentence that begins with their name."""


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
        """Return the wiring of the units that a node returns. Raises Shared if they share weights with others."""
        if node is None:
            raise Shared("is used nowhere")
        called = self.modules[str(node.target)] if node.op == "call_module" else None
        if called is not None and self.calls[str(node.target)] > 1 and any(True for _ in called.parameters()):
            raise Shared(f"shares the parameters of '{node.target}': it is used repeatedly")
        incoming, norms = self._back(node)
        outgoing: dict[str, None] = {}
        for reader in self.ways_on(node):
            name = str(reader.target)
            if self._is(reader, (*LINEAR, *CONV)):
                outgoing[name] = None
            elif self._is(reader, NORMS):
                if self._width(name) == self._width(incoming):
                    norms.append(name)
            elif not self._keeps_apart(reader):
                where = "are the network's output" if reader.op == "output" else f"reach {self.describe(reader)}"
                raise Shared(f"has no private outgoing weights: its outputs {where}")
        if not outgoing:
            raise Shared("has no layer after it")
        self.check_private(incoming, *norms, *outgoing)
        return Wiring((incoming,), tuple(outgoing), tuple(norms))

    def check_private(self, *layers: str) -> None:
        """Raise Shared if a layer is tied to another or used twice, or if its parameters are used elsewhere."""
        for name in layers:
            part = self.modules[name]
            parameters = dict(part.named_parameters(recurse=False))
            tied = any(self.owners[p] > 1 for p in parameters.values())
            if tied or self.calls[name] > 1 or any(f"{name}.{p}" in self.loose for p in parameters):
                raise Shared(f"shares the weights of '{name}': they are tied, or used repeatedly")
            if not _is_plain(part):
                raise Shared(
                    f"has no private weights: '{name}' ({type(part).__name__}) uses its weights in a way of its own"
                )

    def _back(self, node: fx.Node) -> tuple[str, list[str]]:
        """Return the layer that feeds this node and nothing else, and the norms on the way."""
        norms: list[str] = []
        while not self._is(node, (*LINEAR, *CONV)):
            if self._is(node, NORMS):
                norms.append(str(node.target))
            elif not self._keeps_apart(node):
                if node.op in ("placeholder", "get_attr"):
                    raise Shared("has no layer before it")
                raise Shared(f"has no private incoming weights: its inputs come from {self.describe(node)}")
            # the node whose values are passed on; the others are sizes
            passed_on = node.args[0] if node.args and node.op != "call_module" else None
            node = passed_on if isinstance(passed_on, fx.Node) else node.all_input_nodes[0]
            if len(reading := list(readers(node))) > 1:
                others = " and ".join(map(self.describe, reading))
                raise Shared(f"has no private incoming weights: {self.describe(node)} is read by {others}")
        return str(node.target), norms

    def ways_on(self, node: fx.Node) -> Iterator[fx.Node]:
        """Yield the nodes on the ways on from this one, up to the Linear and Conv layers or outputs where they end."""
        for reader in readers(node):
            yield reader
            if not self._is(reader, (*LINEAR, *CONV)):
                yield from self.ways_on(reader)

    def _is(self, node: fx.Node, kinds: tuple[type[nn.Module], ...]) -> bool:
        return node.op == "call_module" and isinstance(self.modules[str(node.target)], kinds)

    def _keeps_apart(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            part = self.modules[str(node.target)]
            return is_activation(part) or (is_transparent(part) and _is_plain(part))
        with_number = len(node.all_input_nodes) == 1 and operation(node).strip("_").removeprefix("i") in _ARITHMETIC
        return with_number or operation(node).rstrip("_") in _APART

    def describe(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"'{node.target}' ({type(self.modules[str(node.target)]).__name__})"
        return f"'{node.name}'"

    def _width(self, name: str) -> int:
        """Return the outputs of a layer, or the gains of a norm; 0 of a norm that has nothing of its own for a unit."""
        part = self.modules[name]
        values = getattr(part, "weight", None)
        if values is None:
            values = getattr(part, "running_mean", None)
        if values is None:
            return 0
        return int(values.shape[-1] if isinstance(part, NORMS) else values.shape[isinstance(part, STACKED)])


def _is_plain(part: nn.Module) -> bool:
    """Return whether a module computes what its kind does: a subclass with a `forward` of its own may mix units."""
    return type(part).forward.__module__.partition(".")[0] in ("torch", "supple")


def readers(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the nodes that read the values of a node, and not only its shape."""
    for user in node.users:
        shape = user.op == "call_method" and user.target in ("size", "dim", "numel")
        if not shape and not (operation(user) == "getattr" and user.args[1] in ("shape", "ndim", "dtype", "device")):
            yield user
