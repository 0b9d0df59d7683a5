"""FIRE on weights: replaces every weight by its nearest isometry times a scale, in place.

    W ← √(d_out/d_in) · orthogonalize(W)                       linear
    W[:, :, i, j] ← √(C_out/C_in)/(k_h·k_w) · orthogonalize(W[:, :, i, j])    convolution, tap by tap

All matrices of one shape, from all taps, members of stacked layers and layers, are orthogonalized as one batch.

Source: the FIRE paper, Appendix C.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from supple.networks.matrices import Weight, Written, describe_skipped, first_names, weight_matrices

from .orthogonalize import MatrixError, orthogonalize

# A batch takes three times its size while it is iterated. Larger groups (language models) are cut between
# weights, which changes no result; agents and VGG-16 stay in one batch per shape.
MAX_BATCH_ELEMENTS = 2**26  # 256 MiB in float32


def _make_batches(weights: Iterable[Weight]) -> list[list[Weight]]:
    """Return groups of weights equal in matrix shape, dtype and device: one weight or MAX_BATCH_ELEMENTS at most."""
    groups: dict[tuple[object, ...], list[list[Weight]]] = defaultdict(list)
    for weight in weights:
        matrices = weight.matrices()
        batches = groups[matrices.shape[-2:], matrices.dtype, matrices.device]
        if not batches or sum(w.tensor.numel() for w in batches[-1]) + matrices.numel() > MAX_BATCH_ELEMENTS:
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
        position = error.index
        for weight, count in zip(weights, counts, strict=True):
            if position < count:
                of = f", matrix {position} of {count}," if count > 1 else ""
                raise ValueError(f"{weight.name}{of} {error.reason}") from None
            position -= count
        raise
    return [
        (weight, part.reshape(view.shape).mul_(weight.scale()))
        for weight, view, part in zip(weights, views, isometries, strict=True)
    ]


@torch.no_grad()
def fire_(
    module: nn.Module,
    method: str = "newton_schulz",
    steps: int = 10,
    tolerance: float | None = None,
    names: Collection[str] | None = None,
    split: Mapping[str, int] | None = None,
    seeds: int = 0,
) -> Written:
    """Apply FIRE to the weight matrices of any module in place: each becomes its nearest isometry times its scale.

    Matrices are those of Linear and Conv1d/2d/3d layers, stacked or not, of transformers' Conv1D, of recurrent layers
    (each gate is a matrix of its own, of inputs and of hidden states) and of nn.MultiheadAttention (query, key and
    value). Biases, normalisations, embeddings and parameters outside layers are not changed. Nor are frozen weights,
    and weights tied to an embedding, unless `names` has them. Names are those of `module.named_parameters()`, which
    lists a tied tensor under its first name only; `names` and `split` may have any of its names.

    Every result is computed before the first is written. A tensor that occurs more than once is written once. Views,
    optimizers and graphs that hold the tensors stay valid. Peak extra memory: one copy of the weights, and three of the
    largest batch.

    Args:
        module: Any module. A matrix (d_out, d_in) gets the scale √(d_out/d_in), a kernel (C_out, C_in, *kernel) at each
            tap √(C_out/C_in) over the number of taps.
        method, steps, tolerance: See `orthogonalize`.
        names: Qualified weight names, such as "encoder.0.weight"; None for all.
        split: Weight name → number of equal parts along its outputs that are separate matrices, such as
            {"attn.c_attn.weight": 3} for a fused query, key and value.
        seeds: The number of seeds in a stack, whose weights are as many equal parts along the first axis. With a
            tolerance, each seed is iterated until its own matrices are within it.

    Returns:
        The names of the weights written. Its attribute `skipped` says which other parameters of two or more dimensions
        there are, name → reason, and is empty if `names` is given.

    Raises:
        ValueError: Nothing was changed. There is no weight to rewrite, or a name fits none; a named weight cannot be
            rewritten in place (weight or spectral norm, a lazy or quantised layer), or belongs to a transposed
            convolution, whose scale the paper does not define; a matrix is empty, zero or not finite, or the tolerance
            is not met.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from supple.interventions import fire_
        >>> net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        >>> fire_(net, method="polar")
        ['0.weight', '2.weight']
        >>> weight = net[0].weight.detach()
        >>> torch.allclose(weight.T @ weight, 16 / 4 * torch.eye(4), atol=1e-4)
        True
    """
    matrices, first, kind = weight_matrices(module), first_names(module), type(module).__name__
    parts = {first.get(name, name): number for name, number in (split or {}).items()}
    if names is None:
        wanted, skipped = matrices.weights.keys() - matrices.spared.keys(), matrices.left()
    else:
        wanted, skipped = {first.get(name, name) for name in names}, {}
    for name in sorted({*wanted, *parts} - matrices.weights.keys()):
        if name in matrices.skipped:
            raise ValueError(f"{name} is {matrices.skipped[name]}")
        raise ValueError(f"no weight matrix named '{name}' in {kind}")
    if not wanted:
        why = f": {describe_skipped(skipped)}" if skipped else ""
        raise ValueError(f"no weight matrix to rewrite in {kind}{why}")
    weights = [
        replace(weight, split=parts.get(name, weight.split))
        for name, weight in matrices.weights.items()
        if name in wanted
    ]
    apart = [weights]
    if tolerance is not None and seeds:
        apart = [
            [replace(w, name=f"{w.name} of seed {i}", tensor=w.tensor.chunk(seeds)[i]) for w in weights]
            for i in range(seeds)
        ]
    results = [
        (weight, isometries)
        for group in apart
        for batch in _make_batches(group)
        for weight, isometries in _orthogonalize_batch(batch, method, steps, tolerance)
    ]
    for weight, isometries in results:
        weight.matrices().copy_(isometries)
    return Written([weight.name for weight in weights], skipped)
