"""The loss that noise in the inputs or the parameters adds (Dominé et al., Appendix C.3).

These are closed forms for independent noise of mean 0 and standard deviation `std` on every entry, and for whitened
inputs. They give the *added* loss: the expected loss is the loss without noise plus this number. This holds for any
weights. After convergence, where W₂W₁ = Σyx, the loss without noise is the constant c of eq. 171.
"""

import numpy as np
from numpy.typing import ArrayLike

from .weights import Array, singular_pair


def input_noise_loss(function: Array, std: ArrayLike) -> Array:
    """Return ½ σ² ‖W₂W₁‖², the expected increase of the loss with noise in the inputs. function: W₂W₁, (…, N_o, N_i).

    After convergence the function is Σyx for every λ. The paper (main text, eqs. 171, 172) lacks the ½.
    """
    return np.asarray(np.square(std) * np.square(function).sum((-2, -1)) / 2)


def parameter_noise_loss(W1: Array, W2: Array, std: ArrayLike) -> Array:
    """Return ½ σ² (N_i ‖W₂‖² + N_o ‖W₁‖² + N_i N_h N_o σ²), for noise in all weights (eq. 173).

    It is the expected increase of the loss. W₁ is (…, N_h, N_i), and W₂ is (…, N_o, N_h). `std` is broadcast against
    the leading dimensions.
    """
    norms = [np.square(W).sum((-2, -1)) for W in (W1, W2)]
    return _parameter_noise(norms[0], norms[1], (W1.shape[-1], W1.shape[-2], W2.shape[-2]), std)


def converged_norms(sigma_yx: Array, lam: ArrayLike) -> tuple[Array, Array]:
    """Return (‖W₁‖², ‖W₂‖²) after convergence with N_h = min(N_i, N_o), each of the shape of lam.

    ‖W₁‖² = ½ Σ (√(λ² + 4s̃²) − λ) and ‖W₂‖² = ½ Σ (√(λ² + 4s̃²) + λ). With λ > 0 the second layer is the larger one.
    The paper (main text, eqs. 174, 175) exchanges the two.
    """
    pairs = singular_pair(np.linalg.svd(sigma_yx, compute_uv=False), np.asarray(lam, float)[..., None])
    first, second = (np.square(values).sum(-1) for values in pairs)
    return first, second


def converged_parameter_noise_loss(sigma_yx: Array, lam: ArrayLike, std: ArrayLike) -> Array:
    """Return `parameter_noise_loss` after convergence on Σyx (N_o, N_i) with N_h = min(N_i, N_o).

    lam and std are broadcast."""
    n_out, n_in = sigma_yx.shape
    return _parameter_noise(*converged_norms(sigma_yx, lam), (n_in, min(n_in, n_out), n_out), std)


def _parameter_noise(first: Array, second: Array, sizes: tuple[int, int, int], std: ArrayLike) -> Array:
    n_in, n_hidden, n_out = sizes
    variance = np.square(std)
    return np.asarray(variance * (n_in * second + n_out * first + n_in * n_hidden * n_out * variance) / 2)
