"""Saturated units, and recovery of a network after a shock (Lillo & Cheney 2025, Section 4, Appendix D).

The shock protocol multiplies all pre-activations by γ for one epoch in every ten. The epochs after a shock form one
window with values per epoch (…, epochs): entry 0 is the epoch of the shock, the others are those of recovery up to the
next shock. Leading axes (seeds, shocks, …) are kept.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from supple.networks.activations import SATURATED, derivative

from .arrays import Array, as_array
from .features import Activations, activity_scores


def activation_slopes(module: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Return |φ′| of an activation (module or function) at its pre-activations, in evaluation mode, in their shape.

    A module with several outputs for one input (CReLU, deep Fourier: twice the features, one block after the other) has
    the norm of their derivatives, so a unit is saturated if all of its outputs are. If several inputs make one output
    (SwiGLU), each input has its own |∂|. Randomised slopes are at their mean. The module is called without its hooks,
    and its mode is restored.
    """
    return derivative(module, inputs).abs()


def saturation_fraction(derivatives: Activations, threshold: float = SATURATED) -> float:
    """Return the share of (sample, unit) pairs with |φ′(x)| < threshold, in [0, 1] (Lillo & Cheney, Section 4).

    Appendix C.3 has further criteria on outputs for each family, for its Figure 1 (see `dead_fraction`). Section 4
    states this one for the shocks.

    Args:
        derivatives: φ′ at the pre-activations, of any shape (n, …), for one layer or as a sequence or mapping of
            layers. Each sample, unit and position of a convolution counts once, so a larger layer weighs more.
        threshold: Above 0.
    """
    if isinstance(derivatives, Tensor):
        derivatives = [derivatives]
    layers = list(derivatives.values() if isinstance(derivatives, Mapping) else derivatives)
    saturated = torch.stack([(layer.abs() < threshold).sum() for layer in layers]).sum()
    return int(saturated) / sum(layer.numel() for layer in layers)


def dead_fraction(
    activations: Tensor, plateaus: Sequence[float] = (), margin: float = 0.01, tau: float = 0.01
) -> float:
    """Return the share of effectively dead units of a layer, by the criteria of its activation's family, in [0, 1].

    Lillo & Cheney (2025, Sections 3 and C.3) call a unit dead if it is stuck on a saturation plateau of its family, or
    is negligible relative to its layer. Here a unit is dead if on every sample its output is within `margin` of a
    plateau, or if its activity score is at most tau. The paper gives neither threshold; ours are 0.01.

    Args:
        activations: (n, units), or another shape of `activity_scores`, which also defines the score.
        plateaus: The outputs at which the activation is flat: (0,) for relu, (−1, 1) for tanh, (0, 1) for sigmoid,
            (−α,) for elu and celu; none for the leaky family, and none for swish and gelu, for which the paper uses the
            magnitude.
        margin: Distance from a plateau, in units of the outputs.
        tau: The largest score of a negligible unit; scores are 1 on average over a layer.
    """
    scores = activity_scores(activations)
    dead = scores <= tau
    if plateaus:
        units = activations.detach().movedim(1 if activations.dim() >= 4 else -1, 0).flatten(1)  # (units, samples)
        nearest = torch.stack([(units - plateau).abs() for plateau in plateaus]).amin(0)
        dead |= (nearest <= margin).all(1)
    return dead.double().mean().item()


def peak_saturation(saturation: ArrayLike) -> Array:
    """Return the peak SF: the largest saturated fraction of the window, (…, epochs) → (…)."""
    return as_array(saturation).max(-1)


def saturation_area(saturation: ArrayLike) -> Array:
    """Return AUSC, the area under the saturation curve by the trapezoidal rule, in epochs: (…, epochs) → (…).

    The paper gives only the name. Saturation before the shock is not subtracted.
    """
    values = as_array(saturation)
    return (values[..., 1:] + values[..., :-1]).sum(-1) / 2


def saturation_recovery_time(saturation: ArrayLike) -> Array:
    """Return epochs from the shock until the saturated fraction is at most half of its peak: (…, epochs) → (…).

    inf if the window ends before that (a non-recovery); 0 if nothing saturated. "Epochs to halve the saturated fraction
    after the shock" (Figure 2) does not say which value is halved. Here it is the peak of the window, which may come an
    epoch after the shock.
    """
    values = as_array(saturation)
    epochs = np.arange(values.shape[-1])
    after_peak = epochs >= values.argmax(-1)[..., None]
    return _first(after_peak & (values <= values.max(-1, keepdims=True) / 2))


def accuracy_recovery_time(accuracy: ArrayLike, before: ArrayLike, share: float = 0.95) -> Array:
    """Return τ₉₅: epochs from the shock until `share` of the accuracy before it is regained: (…, epochs) → (…).

    Args:
        accuracy: (…, epochs), on the current task after each epoch of the window, beginning with that of the shock.
        before: (…), accuracy before the shock.
        share: In (0, 1].

    Returns:
        Epochs, (…). 0 if it was not lost; inf if the window ends before it is regained (App. D.4).
    """
    values = as_array(accuracy)
    return _first(values >= share * as_array(before)[..., None])


def non_recovery_rate(times: ArrayLike) -> float:
    """Return the share of recovery times, (…), that are infinite, in [0, 1]."""
    return float(np.isinf(as_array(times)).mean())


def _first(reached: NDArray[np.bool_]) -> Array:
    """Return the first epoch at which it is true, or inf."""
    return np.where(reached.any(-1), reached.argmax(-1), np.inf)
