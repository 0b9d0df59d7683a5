"""Transfer of a new feature to items for which it was not trained (Dominé et al., Appendix D.3, Figure 13).

A trained network gets one more output, whose row w of W₂ starts near 0 and learns the feature for one item x_i. All
other weights are frozen. The row converges to the shortest solution, w = W₁x_i/‖W₁x_i‖² for the value 1 (eq. 186).
For the other items, the network answers ŷ_f(x_j) = x_iᵀW₁ᵀW₁x_j/‖W₁x_i‖² (eq. 187). Transfer therefore depends on
W₁ᵀW₁ only, and `converged_quadrants` has its closed form.

λ → +∞ makes W₁ᵀW₁ ∝ ΣyxᵀΣyx. An item then gets the feature in proportion to the similarity of its targets to those of
the trained item, which is the structure of the hierarchy. λ = 0 (W₁ᵀW₁ = ṼS̃Ṽᵀ) transfers less, and λ → −∞ (W₁ᵀW₁ ∝ I
for N_i = N_h) nothing.
"""

import numpy as np

from .tasks import LinearTask
from .weights import Array


def new_feature(w1tw1: Array, x: Array, item: int) -> Array:
    """Return ŷ_f for all P items after the feature was learned for one of them, (…, P) (eq. 187).

    Args:
        w1tw1: W₁ᵀW₁, (…, N_i, N_i).
        x: (N_i, P).
        item: The trained item, whose answer is 1.

    Raises ValueError if W₁ maps the item to zero, so that no row can learn it.
    """
    answers = np.einsum("i,...ij,jp->...p", x[:, item], w1tw1, x)
    trained = answers[..., item, None]
    if not (trained > 0).all():
        raise ValueError(f"W1 maps item {item} to zero, so no new output can learn a feature of it")
    return np.asarray(answers / trained)


def hierarchy_feature(task: LinearTask, item: int) -> Array:
    """Return y_iᵀy_j/‖y_i‖² for every item j, (P,): the feature according to the structure of the task.

    An item has the feature in proportion to the similarity of its targets to those of the trained item i.
    """
    similarity = task.y[:, item] @ task.y
    return np.asarray(similarity / similarity[item])


def generalisation_loss(predicted: Array, expected: Array, item: int) -> Array:
    """Return ½ mean (ŷ_f − y_f)² over the untrained items: (…, P) → (…).

    The paper does not define y_f for Figure 13B. With `hierarchy_feature`, the loss falls with λ, as it does there.
    """
    errors = np.square(np.delete(predicted, item, -1) - np.delete(expected, item, -1))
    return np.asarray(errors.mean(-1) / 2)
