"""Where the units of a layer lie in a tensor, followed through the operations up to the next layer."""

from typing import Any, Literal

from torch import Tensor, fx, nn

Place = Literal["units", "channels", "flat"]

UNITS: Place = "units"  # (…, units): on the last axis
CHANNELS: Place = "channels"  # (rows, units, *positions); in a stack (members, rows, units, *positions)
FLAT: Place = "flat"  # (rows, units · positions): every unit with all its positions, one after the other

_POOLING = nn.modules.pooling.__name__
_RESHAPING = ("view", "reshape")


class Mixed(Exception):
    """The reason why single units cannot be told apart in a tensor. It completes a sentence that begins with a name."""


def place_after(
    node: fx.Node, part: nn.Module | None, operation: str, layout: Place, before: nn.Module, stacked: bool, name: str
) -> Place:
    """Return where the units lie behind a node of the graph, which keeps each unit to itself otherwise.

    Shapes are unknown. What is assumed of a `view` is checked on the first inputs (`recording.find_misread_units`).

    Args:
        node: The node.
        part: The module that it calls, or None.
        operation: The name of its function or method.
        layout: Where the units lie before it.
        before: The layer whose outputs they are.
        stacked: Whether the network is a stack, with an axis of members before the rows.
        name: What the node is called in messages.

    Raises:
        Mixed: Several units share a column behind it.
    """
    axis = 1 + stacked
    weight = before.weight
    assert isinstance(weight, Tensor)  # of a Linear or Conv layer
    width, axes = weight.shape[int(stacked)], weight.ndim  # a convolution's outputs have as many axes as its weight
    if "pool" in operation or type(part).__module__ == _POOLING:
        if layout != CHANNELS:
            raise Mixed(f"has no private outgoing weights: {name} pools over the units themselves")
        return layout
    if isinstance(part, nn.Flatten) or operation == "flatten":
        if isinstance(part, nn.Flatten):
            start, end = part.start_dim, part.end_dim
        else:
            start, end = _argument(node, 1, "start_dim", 0), _argument(node, 2, "end_dim", -1)
        if not (isinstance(start, int) and isinstance(end, int)):
            raise Mixed(f"has no private outgoing weights: the axes that {name} joins are not known in advance")
        return _flatten(start % axes, end % axes, layout, axis, axes, name)
    if isinstance(part, nn.Unflatten) or operation == "unflatten":
        sizes = part.unflattened_size if isinstance(part, nn.Unflatten) else _argument(node, 2, "sizes", ())
        if layout == UNITS and tuple(sizes)[:1] == (width,) and all(size == 1 for size in tuple(sizes)[1:]):
            return CHANNELS
        raise Mixed(f"has no private outgoing weights: {name} divides the units among several axes")
    if operation in _RESHAPING:
        sizes = node.args[1:]
        sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        return _reshape(sizes, layout, width, axis, name)
    return layout


def _flatten(start: int, end: int, layout: Place, axis: int, axes: int, name: str) -> Place:
    if layout == CHANNELS:
        if start == axis and end == axes - 1:
            return FLAT
        if start > axis:
            return CHANNELS
        raise Mixed(f"has no private outgoing weights: {name} joins other axes than channels and positions")
    return layout  # more columns than units do not fit the layer behind them, which is checked


def _reshape(sizes: tuple[Any, ...], layout: Place, width: int, axis: int, name: str) -> Place:
    if layout == UNITS:
        if isinstance(sizes[-1], int) and sizes[-1] not in (-1, width):
            raise Mixed(f"has no private outgoing weights: {name} divides the units among several axes")
        return UNITS
    rows_kept = len(sizes) == axis + 1 and not (sizes[0] == -1 and sizes[-1] == width)
    if not rows_kept:
        raise Mixed(f"has no private outgoing weights: {name} does not keep a row for each input")
    return FLAT


def _argument(node: fx.Node, index: int, name: str, default: Any) -> Any:
    return node.args[index] if len(node.args) > index else node.kwargs.get(name, default)
