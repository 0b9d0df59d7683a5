"""The balance of two consecutive linear maps (the λ-balanced paper, "From Lazy to Rich: Exact Learning Dynamics in Deep
Linear Networks", Section 3): W2ᵀW2 − W1W1ᵀ = λI, which gradient flow conserves.

A bias of the first map is one more column of W1: only with it the difference is conserved. Accumulated in float64.
NaN and infinity in the weights come out as NaN or infinity.
"""

import torch
from torch import Tensor, nn

from ..networks.linear_pairs import LinearPair

Map = Tensor | nn.Module


@torch.no_grad()
def lambda_balance(first: Map, second: Map, bias: Tensor | None = None) -> float:
    """Return λ̂ = tr(W2ᵀW2 − W1W1ᵀ − bbᵀ)/h, the multiple of I that is nearest to the difference,
    in units of squared weights.

    first, second: W1 (h, i) and W2 (o, h), matrices or Linear layers. bias: b (h,) of `first`, where that is a matrix;
    a layer has its own. Raises ValueError for shapes that do not fit.
    """
    w1, w2, b = _matrices(first, second, bias)
    return float((w2.square().sum() - w1.square().sum() - b.square().sum()) / len(w1))


@torch.no_grad()
def lambda_residual(first: Map, second: Map, lam: float | None = None, bias: Tensor | None = None) -> float:
    """Return ‖W2ᵀW2 − W1W1ᵀ − bbᵀ − λI‖_F, in [0, ∞): 0 where two directly consecutive maps are λ-balanced.

    lam: λ; None: `lambda_balance`, for which the residual is least. All else as in `lambda_balance`. With an activation
    between the maps only the diagonal is conserved, and can be set; what lies beside it counts here all the same.
    """
    w1, w2, b = _matrices(first, second, bias)
    lam = lambda_balance(first, second, bias) if lam is None else lam
    eye = torch.eye(len(w1), dtype=torch.float64, device=w1.device)
    return float(torch.linalg.matrix_norm(w2.T @ w2 - w1 @ w1.T - torch.outer(b, b) - lam * eye))


def _matrices(first: Map, second: Map, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """W1, W2 and b (zero where there is none) in float64."""
    if isinstance(first, nn.Module):
        bias = getattr(first, "bias", None) if bias is None else bias
    w1, w2 = (m.get_parameter("weight") if isinstance(m, nn.Module) else m for m in (first, second))
    if w1.ndim != 2 or w2.ndim != 2 or w2.shape[1] != w1.shape[0]:
        shapes = f"{tuple(w1.shape)} and {tuple(w2.shape)}"
        raise ValueError(f"lambda_balance: first (h, i) and second (o, h) must be matrices that fit, got {shapes}")
    if bias is not None and bias.shape != w1.shape[:1]:
        raise ValueError(f"lambda_balance: the bias must have the shape ({len(w1)},), not {tuple(bias.shape)}")
    return w1.double(), w2.double(), w1.new_zeros(len(w1)).double() if bias is None else bias.double()


@torch.no_grad()
def nearest_lambda(pair: LinearPair) -> Tensor:
    """Return λ̂ of a learner's pair: (), or (members,)."""
    return _difference(pair).mean(-1)


@torch.no_grad()
def deviation_of(pair: LinearPair) -> Tensor:
    """Return the root mean square over the hidden units of a pair's deviation from λ̂I, (), or (members,): of all
    entries in the row of a unit where the maps are directly consecutive, else of the diagonal alone, for nothing else
    is conserved."""
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
    """‖W2[:, j]‖² − ‖W1[j]‖² − b[j]² of each hidden unit, (…, h)."""
    out = sum(w.double().square().sum(-2) for w in pair.second)
    rows = [torch.linalg.vector_norm(w, dim=-1, dtype=torch.float64) for w in pair.first]  # no copy in float64
    into = sum(row.square() for row in rows) + sum(b.double().square() for b in pair.bias)
    return torch.as_tensor(out - into)
