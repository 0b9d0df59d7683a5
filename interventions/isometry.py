"""FIRE on weights: replaces every weight by its nearest isometry times a scale, in place.

    W ← √(d_out/d_in) · orthogonalize(W)                       linear
    W[:, :, i, j] ← √(C_out/C_in)/(k_h·k_w) · orthogonalize(W[:, :, i, j])    convolution, tap by tap

All matrices of one shape, from all taps, members of stacked layers and layers, are orthogonalized as one batch.

Source: the FIRE paper, Appendix C.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..networks.scale import isometry_scale
from ..networks.wiring import CONV, LINEAR, STACKED
from .orthogonalize import MatrixError, check_method, orthogonalize

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
Layout = Literal["linear", "stacked", "conv"]

# A batch takes three times its size while it is iterated. Larger groups (language models) are cut between
# weights, which changes no result; agents and VGG-16 stay in one batch per shape.
MAX_BATCH_ELEMENTS = 2**26  # 256 MiB in float32


@dataclass(frozen=True)
class Weight:
    """A weight, and how its dimensions form matrices (d_out, d_in).

    layout: `linear` (d_out, d_in); `conv` (C_out, C_in, *kernel), one matrix per tap; `stacked`, several networks with
        the members first: (members, d_out, d_in), or for 2-D convolutions (members, C_out, C_in, k_h, k_w). The slice
        of a grouped convolution is used as it is stored, (C_out, C_in/groups), since the paper defines none.
    split: number of equal parts along d_out that are separate matrices, such as 3 for a fused q, k, v.
    """

    name: str
    tensor: Tensor
    layout: Layout = "linear"
    split: int = 1

    def __post_init__(self) -> None:
        shape, fits = tuple(self.tensor.shape), {"linear": (2,), "stacked": (3, 5), "conv": (3, 4, 5)}[self.layout]
        if len(shape) not in fits:
            raise ValueError(f"{self.name}: a {self.layout} weight cannot have the shape {shape}")
        d_out = shape[self._first]
        if self.split < 1 or d_out % self.split:
            raise ValueError(f"{self.name}: {d_out} outputs cannot be split into {self.split} equal parts")

    @property
    def _first(self) -> int:
        """The axis of the outputs."""
        return int(self.layout == "stacked")

    def matrices(self) -> Tensor:
        """Return a view (members, taps, split, d_out, d_in) of the weight, with 1 for members or taps that it lacks."""
        tensor = self.tensor.detach().movedim((self._first, self._first + 1), (-2, -1))
        return tensor.unflatten(-2, (self.split, -1))

    def scale(self) -> float:
        """Return the factor of the isometry that keeps the variance of a signal (see the module)."""
        weight = self.tensor[0] if self.layout == "stacked" else self.tensor
        return isometry_scale(weight[: len(weight) // self.split])


@torch.no_grad()
def orthogonalize_weights_(
    weights: Iterable[Weight],
    method: str = "newton_schulz",
    steps: int = 10,
    tolerance: float | None = None,
) -> list[str]:
    """Apply FIRE to these weights in place, and return the names written. For the settings see `orthogonalize`.

    Every result is computed before the first is written. A tensor that occurs more than once (tied weights) is written
    once, under its first name. Views, optimizers and graphs that hold the tensors stay valid. Peak extra memory: one
    copy of the weights, and three of the largest batch.

    Raises:
        ValueError: A matrix is empty, zero or not finite, or the tolerance is not met. The message names the layer.
    """
    check_method(method, steps, tolerance)
    unique: dict[tuple[object, ...], Weight] = {}
    for weight in weights:
        if weight.tensor.numel() == 0:
            raise ValueError(f"{weight.name} is empty: {tuple(weight.tensor.shape)}")
        # an address alone is not enough: two views of one tensor may start at the same place
        key = (weight.tensor.device, weight.tensor.data_ptr(), weight.tensor.shape, weight.tensor.stride())
        unique.setdefault(key, weight)
    results = [
        (weight, isometries)
        for batch in _batches(unique.values())
        for weight, isometries in _orthogonalize_batch(batch, method, steps, tolerance)
    ]
    for weight, isometries in results:
        weight.matrices().copy_(isometries)
    return [weight.name for weight in unique.values()]


def _batches(weights: Iterable[Weight]) -> list[list[Weight]]:
    """Return groups of weights equal in matrix shape, dtype and device: one weight or MAX_BATCH_ELEMENTS at most."""
    groups: dict[tuple[object, ...], list[list[Weight]]] = defaultdict(list)
    for weight in weights:
        matrices = weight.matrices()
        batches = groups[matrices.shape[-2:], matrices.dtype, matrices.device]
        full = not batches or sum(w.tensor.numel() for w in batches[-1]) + matrices.numel() > MAX_BATCH_ELEMENTS
        if full:
            batches.append([])
        batches[-1].append(weight)
    return [batch for batches in groups.values() for batch in batches]


def _orthogonalize_batch(
    weights: list[Weight], method: str, steps: int, tolerance: float | None
) -> list[tuple[Weight, Tensor]]:
    """Return every weight of one shape with its scaled isometries, in the shape of its `matrices()`."""
    views = [weight.matrices() for weight in weights]
    counts = [view.shape[:-2].numel() for view in views]
    # one strided copy puts each matrix in a piece, which the products need: the taps of a convolution are
    # the fastest dimensions in memory
    stack = views[0].new_empty(sum(counts), *views[0].shape[-2:])
    for part, view in zip(stack.split(counts), views, strict=True):
        part.view(view.shape).copy_(view)
    try:
        isometries = orthogonalize(stack, method, steps, tolerance).split(counts)
    except MatrixError as error:
        position = error.index[0]
        for weight, view, count in zip(weights, views, counts, strict=True):
            if position < count:
                raise ValueError(_place(weight, view, position) + f" {error.reason}") from None
            position -= count
        raise
    return [
        (weight, part.reshape(view.shape).mul_(weight.scale()))
        for weight, view, part in zip(weights, views, isometries, strict=True)
    ]


def _place(weight: Weight, view: Tensor, position: int) -> str:
    """Return which matrix of which layer it is: "conv1.weight, tap (0, 2)", or only the name if there is one."""
    index = [int(i) for i in torch.unravel_index(torch.tensor(position), view.shape[:-2])]
    *outer, part = index
    words = []
    if weight.layout == "stacked":
        words.append(f"member {outer.pop(0)}")
    if outer:
        words.append(f"tap ({', '.join(map(str, outer))})")
    if weight.split > 1:
        words.append(f"part {part}")
    return ", ".join([weight.name, *words])


def fire_(
    module: nn.Module,
    method: str = "newton_schulz",
    steps: int = 10,
    tolerance: float | None = None,
    names: Collection[str] | None = None,
    split: Mapping[str, int] | None = None,
) -> list[str]:
    """Apply FIRE to the Linear and Conv1d/2d/3d weights of any module, stacked or not, in place.

    Biases, normalisation layers, embeddings and parameters outside layers are not changed. For the fused in_proj_weight
    of nn.MultiheadAttention, use `orthogonalize_weights_`. A Linear weight tied to an embedding is one tensor: it is
    written once, which changes both. Names are those of `module.named_parameters()`, which lists a tied tensor under
    its first name only.

    Args:
        method, steps, tolerance: See `orthogonalize`.
        names: Qualified weight names, such as "encoder.0.weight"; None for all.
        split: Weight name → number of equal parts along its outputs that are separate matrices, such as
            {"attn.c_attn.weight": 3} for a fused query, key and value.

    Returns:
        The names of the weights written.

    Raises:
        ValueError: Nothing was changed. There is no weight to rewrite or a name fits none; a weight cannot be rewritten
            in place (weight or spectral norm, a lazy layer); it belongs to a transposed convolution, whose scale the
            paper does not define; or `orthogonalize_weights_` refuses it.
    """
    layers = {
        f"{path}.weight".lstrip("."): layer
        for path, layer in module.named_modules(remove_duplicate=False)
        if isinstance(layer, (*LINEAR, *CONV, *TRANSPOSED))
    }
    split = split or {}
    chosen = layers if names is None else [name for name in layers if name in names]
    unknown = sorted({*(names or ()), *split} - layers.keys())
    if unknown or not chosen:
        what = f"named '{unknown[0]}'" if unknown else "to rewrite"
        raise ValueError(f"no Linear or Conv weight {what} in {type(module).__name__}")
    parameters: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    weights = []
    for name in chosen:
        layer = layers[name]
        if isinstance(layer, TRANSPOSED):
            raise ValueError(f"{name} is a transposed convolution's, for which FIRE has no scale: leave it out")
        if layer.weight not in parameters or is_lazy(layer.weight):
            raise ValueError(f"{name} is parametrized or has no values yet: it cannot be rewritten in place")
        layout: Layout = "linear" if isinstance(layer, LINEAR) else "conv"
        if isinstance(layer, STACKED):
            layout = "stacked"
        weights.append(Weight(parameters[layer.weight], layer.weight, layout, split.get(name, 1)))
    return orthogonalize_weights_(weights, method, steps, tolerance)
