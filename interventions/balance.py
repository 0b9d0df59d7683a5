"""Rebalancing of consecutive linear maps to a given balance λ, without a change of the function.

    W2·W1 = U·S·Vᵀ   →   W2 = U·S2·Rᵀ,  W1 = R·S1·Vᵀ,   S2·S1 = S,  S2² − S1² = λ
    S2 = √((√(λ² + 4S²) + λ)/2),   S1 = √((√(λ² + 4S²) − λ)/2)

Afterwards W2ᵀW2 − W1W1ᵀ = λI, which gradient flow conserves, and the product W2·W1 is unchanged. λ > 0 makes W2 the
larger map and λ < 0 makes W1 larger (the main text of the paper states the opposite). The paper's experiments fine-tune
at −10 ≤ λ ≤ 10. R is free. It is chosen to be the orthogonal matrix that moves the weights least. It minimises
‖U·S2·Rᵀ − W2‖² + ‖R·S1·Vᵀ − W1‖², hence maximises tr(Rᵀ·M) with M = W2ᵀ·U·S2 + W1·V·S1, so it is the polar factor of M
(Procrustes). Hidden units that are zero in both maps do not occur in M. Their U·Rᵀ is the one nearest to the coordinate
axes, so the result does not depend on LAPACK's choice of a basis.

Between the layers of an MLP lies an activation. If it is positive-homogeneous, only a positive factor for each hidden
unit keeps the function:

    W1[j], b[j] ← /α_j,   W2[:, j] ← ·α_j,   α² = (λ + √(λ² + 4ac))/(2a),   a = ‖W2[:, j]‖²,   c = ‖W1[j]‖² + b[j]²

The diagonal ‖W2[:, j]‖² − ‖W1[j]‖² − b[j]² becomes λ. Gradient flow conserves only this diagonal, and such factors
reach only it. A bias is a weight from an input that is always 1: one more column of W1.

Source: the λ-balanced paper, "From Lazy to Rich: Exact Learning Dynamics in Deep Linear Networks" (arXiv 2409.14623),
Appendix D.4 and Theorem C.2.

Cost: For directly linear maps, two QR decompositions and SVDs of matrices no larger than the number of hidden units.
Otherwise one pass over the weights, repeated if pairs share a layer until all are balanced: about 25 times for two
hidden layers and 300 times for eight (1 s), growing with the square of the depth.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from supple.networks.linear_pairs import Between, LinearPair, pair_of
from supple.networks.modules import LINEAR

from .base import check_within
from .orthogonalize import complete_isometry, polar

SWEEPS = 10_000  # over pairs that share layers
TOLERANCE = 1e-12  # of their balance, relative to the largest squared norm of a unit's weights


def rebalance_(
    first: Tensor | nn.Module,
    second: Tensor | nn.Module,
    lam: float,
    *,
    bias: Tensor | None = None,
    between: Between = "linear",
) -> Tensor:
    """Give two consecutive linear maps the balance λ, in place, without changing the function that they compute.

    Args:
        first, second: W1 (…, h, i) and W2 (…, o, h), where … are members of a stack: tensors, including views (PEFT's
            `lora_A.weight` and `lora_B.weight`), or Linear and StackedLinear layers.
        lam: λ, any finite number, in units of squared weights.
        bias: b (…, h) of `first` if that is a tensor. A layer has its own.
        between: "linear": nothing lies between the two, and W2ᵀW2 − W1W1ᵀ − bbᵀ = λI is reached to rounding. Hidden
            units beyond the rank of the product have S = 0. Their larger map becomes √|λ| in directions near its
            present ones (near the coordinate axes if it has none), and the other becomes zero there. LoRA's A
            therefore becomes zero if B is zero and λ > 0. "homogeneous": an activation such as relu lies between, and
            factors of the units reach the diagonal.

    Returns:
        A boolean mask (…, h) of the hidden units that now have the balance. Units whose weights are all zero on one
        side, so that no factor can balance them, are unchanged. The computation is in float64, rounded once.

    Raises:
        ValueError: Nothing was written. λ > 0 and h > o ("linear": W2ᵀW2 has rank o at most, and λI rank h), or λ < 0
            and h > i; shapes do not fit; both are the same matrix; or numbers are not finite, or would not be finite in
            the dtype of the weights.

    Examples:
        >>> import torch
        >>> from supple.interventions import rebalance_
        >>> first, second = torch.eye(2, 3), torch.ones(4, 2) + torch.eye(4, 2)
        >>> product = second @ first
        >>> rebalance_(first, second, lam=0.5)
        tensor([True, True])
        >>> torch.allclose(second.T @ second - first @ first.T, 0.5 * torch.eye(2), atol=1e-5)
        True
        >>> torch.allclose(second @ first, product, atol=1e-5)
        True
    """
    for side in (first, second):
        if isinstance(side, nn.Module) and not isinstance(side, LINEAR):
            raise ValueError(f"rebalance: a layer must be Linear or StackedLinear, got {type(side).__name__}")
    if isinstance(first, nn.Module):
        bias = getattr(first, "bias", None)
    weights = [side.get_parameter("weight") if isinstance(side, nn.Module) else side for side in (first, second)]
    if weights[0] is weights[1]:
        raise ValueError("rebalance: first and second are the same matrix; tied weights cannot be balanced")
    if between not in ("linear", "homogeneous"):
        raise ValueError(f"rebalance: between must be 'linear' or 'homogeneous', got {between!r}")
    first, second = weights
    if (*second.shape[:-2], second.shape[-1]) != tuple(first.shape[:-1]):
        shapes = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise ValueError(f"rebalance: first (…, h, i) and second (…, o, h) do not fit: {shapes}")
    pair = LinearPair("the pair", (first,), (second,), () if bias is None else (bias,), between)
    return balance_pairs_([pair], lam)[0]


@torch.no_grad()
def balance_pairs_(pairs: Sequence[LinearPair], lam: float) -> list[Tensor]:
    """Rebalance several pairs together, in place. Pairs may share layers, as in an MLP with several hidden layers.

    Pairs that share a layer are balanced in turn until all are balanced. This descends ½Σ‖W‖² − λ·Σ log α, which is
    convex in log α and minimal when every pair has the balance λ.

    Returns:
        For each pair the mask (…, h) that `rebalance_` returns.

    Raises:
        ValueError: As in `rebalance_`, and if `SWEEPS` turns are not enough.
    """
    check_within("rebalance", lam=(lam, "(-∞, ∞)"))
    for pair in pairs:
        check_sizes(pair, lam)
    copies = {t: t.detach().to(torch.float64, copy=True) for pair in pairs for t in pair.tensors}
    work = [pair.on(copies) for pair in pairs]
    for pair in work:
        if not all(bool(t.isfinite().all()) for t in pair.tensors):
            raise ValueError(f"rebalance: the weights of {pair.name} are not finite")
    shared = len(copies) < sum(len(pair.tensors) for pair in pairs)
    for _ in range(SWEEPS if shared else 1):
        masks = [
            _balance_linear_(pair, lam) if pair.between == "linear" else _balance_homogeneous_(pair, lam)
            for pair in work
        ]
        if not shared:
            break
        off, name = max((_deviation(pair, lam, mask), pair.name) for pair, mask in zip(work, masks, strict=True))
        if off <= TOLERANCE:
            break
    else:
        raise ValueError(f"rebalance: {name} still deviates from lam={lam} by {off:.1e} after {SWEEPS} turns")
    rounded = {tensor: value.to(tensor.dtype) for tensor, value in copies.items()}
    for pair in pairs:
        if not all(bool(rounded[t].isfinite().all()) for t in pair.tensors):
            kind = str(pair.first[0].dtype).removeprefix("torch.")
            raise ValueError(f"rebalance: with lam={lam} the weights of {pair.name} are too large for {kind}")
    for tensor, value in rounded.items():
        tensor.copy_(value)
    return masks


def balance_layers_(groups: Sequence[Sequence[nn.Module]], lam: float) -> None:
    """Scale the hidden units of an MLP in place so that each has ‖out‖² − ‖in‖² − b² = λ.

    This is for initialisation. It changes the function of the network, so any activation may lie between the layers.

    Args:
        groups: The layers in forward order. Parallel layers, such as heads on one body, are in one group.
        lam: λ.

    Raises:
        ValueError: All weights of a unit are zero on one side, or the activation has several features per unit (crelu,
            deep_fourier, swiglu).
    """
    pairs = [pair_of(str(first[0]), first, second, "homogeneous") for first, second in pairwise(groups)]
    for pair in pairs:
        if pair.hidden != (features := pair.second[0].shape[-1]):
            raise ValueError(
                f"balance_layers_: {pair.name} has {pair.hidden} units, of which the activation makes {features}:"
                " only units with one feature each can be balanced"
            )
    for pair, mask in zip(pairs, balance_pairs_(pairs, lam), strict=True):
        if not mask.all():
            raise ValueError(f"lam={lam} cannot be reached behind {pair.name}: the weights of a unit are all zero")


def check_sizes(pair: LinearPair, lam: float) -> None:
    """Raise ValueError if no matrices of these sizes satisfy W2ᵀW2 − W1W1ᵀ = λI."""
    if pair.between == "linear" and (
        (lam > 0 and pair.hidden > pair.outputs) or (lam < 0 and pair.hidden > pair.inputs)
    ):
        size, what = (pair.outputs, "outputs") if lam > 0 else (pair.inputs, "inputs")
        raise ValueError(
            f"rebalance: lam={lam} needs at least as many {what} as hidden units: {pair.name} has {pair.hidden} hidden"
            f" units and {size} {what}"
        )


def _squared_norms(pair: LinearPair) -> tuple[Tensor, Tensor]:
    """‖W2[:, j]‖² and ‖W1[j]‖² + b[j]² of each hidden unit, (…, h)."""
    out = torch.stack([w.square().sum(-2) for w in pair.second]).sum(0)
    into = torch.stack([*(w.square().sum(-1) for w in pair.first), *(b.square() for b in pair.bias)]).sum(0)
    return out, into


def _balance_homogeneous_(pair: LinearPair, lam: float) -> Tensor:
    a, c = _squared_norms(pair)
    reached = ((a > 0) | (lam < 0)) & ((c > 0) | (lam > 0))
    root = torch.hypot(a.new_tensor(lam), 2 * a.sqrt() * c.sqrt())
    squared = (root + lam) / (2 * a) if lam >= 0 else 2 * c / (root - lam)  # the same number without cancellation
    alpha = torch.where(reached, squared.sqrt(), 1.0)
    for w in pair.first:
        w.div_(alpha[..., None])
    for b in pair.bias:
        b.div_(alpha)
    for w in pair.second:
        w.mul_(alpha[..., None, :])
    return reached | (a - c == lam)


def _balance_linear_(pair: LinearPair, lam: float) -> Tensor:
    w1, w2 = pair.matrices()
    new1, new2 = _factors(w1, w2, lam)
    for new, old in zip(new1.split([w.shape[-1] for w in pair.first] + [1] * len(pair.bias), -1),
                        (*pair.first, *(b[..., None] for b in pair.bias)), strict=True):  # fmt: skip
        old.copy_(new)
    for new, old in zip(new2.split([w.shape[-2] for w in pair.second], -2), pair.second, strict=True):
        old.copy_(new)
    return torch.ones(w1.shape[:-1], dtype=torch.bool, device=w1.device)


def _factors(w1: Tensor, w2: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """Return the λ-balanced factors of the product W2·W1 that are nearest to W1 (…, h, i) and W2 (…, o, h)."""
    if lam < 0:  # the same of the transposed maps
        second, first = _factors(w2.mT, w1.mT, -lam)
        return first.mT, second.mT
    (q2, r2), (q1, r1) = torch.linalg.qr(w2), torch.linalg.qr(w1.mT)
    u, s, vt = torch.linalg.svd(r2 @ r1.mT)
    sizes = torch.linalg.matrix_norm(w1), torch.linalg.matrix_norm(w2)
    rounding = max(*w1.shape[-2:], *w2.shape[-2:]) * torch.finfo(s.dtype).eps
    # what is smaller than the rounding of the product is no singular value of it
    s = torch.where(s > (sizes[0] * sizes[1] * rounding)[..., None], s, 0.0)
    s = nn.functional.pad(s, (0, u.shape[-1] - s.shape[-1]))
    u, v = q2 @ u, q1 @ nn.functional.pad(vt.mT, (0, u.shape[-1] - vt.shape[-1]))
    s2 = ((torch.hypot(s.new_tensor(lam), 2 * s) + lam) / 2).sqrt()
    s1 = torch.where(s2 > 0, s / s2, 0.0)
    pull = w2.mT @ (u * s2[..., None, :]) + w1 @ (v * s1[..., None, :])
    r = polar(pull, 10 * rounding * (sizes[1] * s2.amax(-1) + sizes[0] * s1.amax(-1)))
    new1, new2 = (r * s1[..., None, :]) @ v.mT, (u * s2[..., None, :]) @ r.mT
    if lam:
        new2 = new2 + lam**0.5 * (complete_isometry(u @ r.mT) - u @ r.mT)
    return new1, new2


def _deviation(pair: LinearPair, lam: float, reached: Tensor) -> float:
    """Return the largest deviation from the balance, relative to the largest squared norm."""
    a, c = _squared_norms(pair)
    off = (a - c - lam).abs() * reached
    if pair.between == "linear":
        w1, w2 = pair.matrices()
        off = (w2.mT @ w2 - w1 @ w1.mT - lam * torch.eye(pair.hidden, dtype=a.dtype, device=a.device)).abs()
    # a product that is zero leaves all weights zero where lam is
    return float(off.max() / torch.maximum(a, c).amax().clamp_min(max(abs(lam), torch.finfo(a.dtype).tiny)))
