"""The balance of two consecutive linear maps, W2ᵀW2 − W1W1ᵀ = λI, which gradient flow conserves.

Source: the λ-balanced paper, "From Lazy to Rich: Exact Learning Dynamics in Deep Linear Networks", Section 3. A bias of
the first map is one more column of W1, without which the difference is not conserved. Values are accumulated in
float64. NaN or infinity in the weights gives NaN or infinity.
"""

from contextlib import ExitStack

import torch
from torch import Tensor, nn

from supple.networks.linear_pairs import LinearPair
from supple.networks.unchanged import evaluating

Map = Tensor | nn.Module


@torch.no_grad()
def lambda_balance(first: Map, second: Map, bias: Tensor | None = None) -> float:
    """Return λ̂ = tr(W2ᵀW2 − W1W1ᵀ − bbᵀ)/h, the multiple of I nearest to the difference, in units of squared weights.

    Args:
        first, second: W1 (h, i) and W2 (o, h), matrices or Linear layers.
        bias: b (h,) of `first` if that is a matrix. A layer has its own.

    Raises:
        ValueError: The shapes do not fit.
    """
    w1, w2, b = _matrices(first, second, bias)
    return float((w2.square().sum() - w1.square().sum() - b.square().sum()) / len(w1))


@torch.no_grad()
def lambda_residual(first: Map, second: Map, lam: float | None = None, bias: Tensor | None = None) -> float:
    """Return ‖W2ᵀW2 − W1W1ᵀ − bbᵀ − λI‖_F, in [0, ∞): 0 if two directly consecutive maps are λ-balanced.

    With an activation between the maps only the diagonal is conserved and can be set, but all entries count here.

    Args:
        first, second: W1 (h, i) and W2 (o, h), matrices or Linear layers.
        lam: λ, in units of squared weights; by default `lambda_balance`, which minimises the residual.
        bias: b (h,) of `first` if that is a matrix. A layer has its own.

    Raises:
        ValueError: The shapes do not fit.
    """
    w1, w2, b = _matrices(first, second, bias)
    lam = lambda_balance(first, second, bias) if lam is None else lam
    eye = torch.eye(len(w1), dtype=torch.float64, device=w1.device)
    return float(torch.linalg.matrix_norm(w2.T @ w2 - w1 @ w1.T - torch.outer(b, b) - lam * eye))


def _matrices(first: Map, second: Map, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return W1, W2 and b (zero if there is none) in float64."""
    if isinstance(first, nn.Module):
        bias = getattr(first, "bias", None) if bias is None else bias
    with ExitStack() as stack:  # else a parametrization may change its buffers when its weight is read
        for layer in (first, second):
            if isinstance(layer, nn.Module):
                stack.enter_context(evaluating(layer))
        w1, w2 = (layer.weight.detach() if isinstance(layer, nn.Module) else layer for layer in (first, second))  # type: ignore[operator]
    if w1.ndim != 2 or w2.ndim != 2 or w2.shape[1] != w1.shape[0]:
        shapes = f"{tuple(w1.shape)} and {tuple(w2.shape)}"
        raise ValueError(f"lambda_balance: first (h, i) and second (o, h) must be matrices that fit, got {shapes}")
    if bias is not None and bias.shape != w1.shape[:1]:
        raise ValueError(f"lambda_balance: the bias must have the shape ({len(w1)},), not {tuple(bias.shape)}")
    return w1.double(), w2.double(), w1.new_zeros(len(w1)).double() if bias is None else bias.double()


@torch.no_grad()
def nearest_lambda(pair: LinearPair) -> Tensor:
    """Return λ̂ (see `lambda_balance`) of a pair of consecutive maps, of shape (), or (members,) for a stack."""
    return _difference(pair).mean(-1)


@torch.no_grad()
def deviation_of(pair: LinearPair) -> Tensor:
    """Return the root mean square over hidden units of a pair's deviation from λ̂I.

    If the maps are directly consecutive, it includes all entries in the row of a unit. Otherwise it includes only the
    diagonal, since nothing else is conserved. The shape is (), or (members,) for a stack.
    """
    if pair.between == "linear":
        w1, w2 = (matrix.double() for matrix in pair.matrices())
        off = w2.mT @ w2 - w1 @ w1.mT
        off.diagonal(dim1=-2, dim2=-1).sub_(nearest_lambda(pair)[..., None])
        off = off.flatten(-2)
    else:
        off = _difference(pair)
        off = off - off.mean(-1, keepdim=True)
    return off.square().sum(-1).div(pair.hidden).sqrt()


def _difference(pair: LinearPair) -> Tensor:
    """Return ‖W2[:, j]‖² − ‖W1[j]‖² − b[j]² of each hidden unit, (…, h)."""
    out = sum(w.double().square().sum(-2) for w in pair.second)
    rows = [torch.linalg.vector_norm(w, dim=-1, dtype=torch.float64) for w in pair.first]  # no copy in float64
    into = sum(row.square() for row in rows) + sum(b.double().square() for b in pair.bias)
    return torch.as_tensor(out - into)
