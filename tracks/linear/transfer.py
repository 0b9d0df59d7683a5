"""Transfer of a new feature to items it was never trained on (Dominé et al., Appendix D.3, Figure 13).

A trained network gets one more output, whose row w of W₂ starts near 0 and learns the feature for one item x_i while
all else is frozen. It ends at the shortest row that does so, w = v·W₁x_i/‖W₁x_i‖² for the value v (eq. 186), and says
ŷ_f(x_j) = v·x_iᵀW₁ᵀW₁x_j/‖W₁x_i‖² of the others (eq. 187): what it transfers depends on W₁ᵀW₁ alone, for which
`converged` has the closed form.

λ → +∞ makes W₁ᵀW₁ ∝ ΣyxᵀΣyx, so an item gets the feature as far as its targets resemble the trained item's: that is
the hierarchy's own answer. λ = 0 (W₁ᵀW₁ = ṼS̃Ṽᵀ) transfers a part of it, λ → −∞ (W₁ᵀW₁ ∝ I for N_i = N_h) nothing.
"""

import numpy as np

from .tasks import Task
from .weights import Array


def new_feature(w1tw1: Array, x: Array, item: int, value: float = 1.0) -> Array:
    """Return ŷ_f of all P items after the feature was learnt for one of them: (…, P) (eq. 187).

    w1tw1: W₁ᵀW₁, (…, N_i, N_i). x: (N_i, P). value: the target of the trained item, which it meets exactly.
    Raises ValueError if W₁ maps the item to zero: then no row can learn it.
    """
    answers = np.einsum("i,...ij,jp->...p", x[:, item], w1tw1, x)
    trained = answers[..., item, None]
    if not (trained > 0).all():
        raise ValueError(f"W1 maps item {item} to zero, so no new output can learn a feature of it")
    return np.asarray(value * answers / trained)


def hierarchy_feature(task: Task, item: int, value: float = 1.0) -> Array:
    """Return the feature as the task's own structure has it: value·y_iᵀy_j/‖y_i‖² for every item j, (P,).

    An item has the feature as far as its targets resemble the trained item's. Raises ValueError if y_i = 0.
    """
    similarity = task.y[:, item] @ task.y
    if not similarity[item] > 0:
        raise ValueError(f"item {item} has no features, so nothing resembles it")
    return np.asarray(value * similarity / similarity[item])


def generalisation_loss(predicted: Array, expected: Array, item: int) -> Array:
    """Return ½ mean (ŷ_f − y_f)² over the untrained items: (…, P) → (…).

    The paper does not say what y_f is in Figure 13B; with `hierarchy_feature` the loss falls with λ, as drawn there.
    """
    errors = np.square(np.delete(predicted, item, -1) - np.delete(expected, item, -1))
    return np.asarray(errors.mean(-1) / 2)
