"""The scale of an isometry as a layer's weight (the FIRE paper, Appendix C)."""

import math

from torch import Tensor


def isometry_scale(W: Tensor) -> float:
    """Return the factor by which FIRE multiplies the orthogonalised W, so that the variance of a signal is kept.

    √(d_out/d_in) for a Linear's weight (d_out, d_in); √(C_out/C_in)/∏ kernel sizes for a convolution's
    (C_out, C_in, *kernel). Positive; depends on the shape only.
    Raises ValueError for fewer than two dimensions, and for an empty weight.
    """
    if W.ndim < 2 or W.numel() == 0:
        raise ValueError(
            "isometry_scale: needs a matrix (m, n) or a convolution weight (C_out, C_in, *kernel), not empty; "
            f"got shape {tuple(W.shape)}"
        )
    d_out, d_in, *kernel = W.shape
    return math.sqrt(d_out / d_in) / math.prod(kernel)
