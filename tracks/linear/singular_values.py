"""The singular values of a task-aligned network, which follow independent closed curves (Dominé et al., Theorem C.1).

With W₁ = R S₁ Ṽᵀ and W₂ = Ũ S₂ Rᵀ the singular vectors do not change, and each value s = s1·s2 follows τ ds/dt = 2 √(s²
+ λ²/4) (s̃ − s). Eq. 116 is its solution. A negative start is reversal learning: the network has learned the opposite
direction of the mode (Appendix D.2).
"""

import numpy as np
from numpy.typing import ArrayLike

from .checks import rescale_times
from .weights import Array


def transition(times: ArrayLike, target: ArrayLike, start: ArrayLike, lam: ArrayLike, tau: float = 1.0) -> Array:
    """Return γ(t; λ) ∈ [0, 1], the share of the way from s(0) to s̃ that a singular value has gone by time t (eq. 116).

    The formula is eq. 116 divided by its growing exponential, with every difference written as a product. It is
    accurate to rounding at all times, also for s̃ = 0 and s(0) = 0. γ does not converge to 1 if λ = 0 and start and
    target have opposite signs, or the start is 0. Then s → 0, which is the saddle.

    With λ = 0 it is the sigmoid of the rich limit, (e^{2s̃t/τ} − 1) / (e^{2s̃t/τ} − 1 + s̃/s(0)), which as printed in eq.
    117 has a pole for s(0) < 0. For λ → ±∞ it is the exponential of the lazy limit, 1 − e^{−|λ|t/τ}, with an error of
    O(1/λ²) at fixed |λ|t.

    Args:
        times: ≥ 0, in the unit of tau. All arguments are broadcast together.
        target: s̃.
        start: s(0), of either sign.
        lam: λ.
        tau: The time constant τ > 0.

    Raises ValueError for times that are negative or not finite, and for tau ≤ 0.
    """
    gone, left = _parts(times, target, start, lam, tau)
    return gone / (gone + left)


def singular_values(times: ArrayLike, target: ArrayLike, start: ArrayLike, lam: ArrayLike, tau: float = 1.0) -> Array:
    """Return s(t) = s(0) + γ(t; λ) (s̃ − s(0)) of a task-aligned network (eq. 115).

    Args:
        times: ≥ 0, in the unit of tau. For one curve per mode, (T, 1); the result is then (T, N_h).
        target: s̃, such as (N_h,).
        start: s(0), such as (N_h,), of either sign.
        lam: λ.
        tau: The time constant τ > 0.

    Raises ValueError as `transition` does.
    """
    gone, left = _parts(times, target, start, lam, tau)
    return (gone * np.asarray(target) + left * np.asarray(start)) / (gone + left)


def _parts(times: ArrayLike, target: ArrayLike, start: ArrayLike, lam: ArrayLike, tau: float) -> tuple[Array, Array]:
    """Return (gone, left) with γ = gone / (gone + left). Both are ≥ 0, and never both 0.

    With x = 2 s̃_λ t/τ, q = s̃_λ s_λ and p = s̃ s(0) + λ²/4, the numerator of eq. 116 and 1 − γ, times e⁻ˣ/s̃_λ², are
    (1 − e⁻ˣ)[(q + p) + (q − p) e⁻ˣ] / 2s̃_λ² and e⁻ˣ. Both brackets are ≥ 0, because q² − p² = (λ/2)² (s̃ − s(0))².
    """
    time, goal, first, half = np.broadcast_arrays(
        rescale_times(tau, times), *(np.asarray(a, float) for a in (target, start, np.divide(lam, 2)))
    )
    goal_lam, first_lam = np.hypot(goal, half), np.hypot(first, half)
    safe = np.where(goal_lam == 0, 1.0, goal_lam)
    decay = np.exp(-2 * goal_lam * time)
    # (1 − e⁻ˣ)/s̃_λ, which is 2t/τ where s̃_λ = 0; and q/s̃_λ ± p/s̃_λ, the smaller from the product of the two.
    grown = np.where(goal_lam == 0, 2 * time, -np.expm1(-2 * goal_lam * time) / safe)
    cosine = goal / safe * first + half / safe * half
    large = first_lam + np.abs(cosine)
    small = np.where(goal_lam == 0, large, (half / safe * (goal - first)) ** 2 / np.where(large == 0, 1.0, large))
    same, opposite = np.where(cosine < 0, small, large), np.where(cosine < 0, large, small)
    # On the saddle (same = 0) both parts vanish like e⁻ˣ: they are divided by it there, as it underflows.
    scale = np.where(same == 0, 1.0, decay)
    return grown * (np.where(same == 0, 0.0, same) + opposite * scale) / 2, scale
