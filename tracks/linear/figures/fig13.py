"""Figure 13: what a network says of a new feature of one item, about all others, depends on λ.

A. An 8-8-8 network has learned the semantic hierarchy. A new feature is learned for the goldfish alone, by a new row of
W₂ with all else frozen; then the other items are asked. B. Generalisation loss on the untrained items over λ.
C. The new feature of each item for several λ. Gradient descent in both trainings; theory: W₁ᵀW₁ at t → ∞ (Theorem C.3)
and the shortest row that learns the item (eqs. 186, 187).

What the untrained items ought to answer the paper does not say. Here: the feature as far as their targets resemble the
goldfish's, yᵢᵀyⱼ/‖yᵢ‖² (`hierarchy_feature`), which is what λ → ∞ answers. The loss then falls with λ all the way, as
in the paper; but it does so by that choice. With S̃ in place of S̃² in the resemblance, λ = 0 would be perfect.

Paper (D.3): λ ∈ [−10, 10], the hierarchy of Figure 4; no more. Chosen here: starts of σ = 0.1 (Algorithm 1), η = 0.01
for 20 τ, then 30 τ for the new row, which starts at standard deviation 1e-4: what is random in it stays where the
item does not reach, and shows most at λ = −10, where hidden units are large. At λ = 0 a square network can only learn
tasks whose determinant has the sign of its own; see `learnable` in runs.py.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..flow import gradient_descent
from ..representations import converged
from ..tasks import ITEMS, semantic_hierarchy
from ..transfer import generalisation_loss, hierarchy_feature, new_feature
from ..weights import Array, balanced_init
from .runs import difference, learnable, plain

TRAINED = ITEMS.index("goldfish")
LAMBDAS = tuple(range(-10, 11))
SHOWN = (-10, -2, 0, 2, 10)  # of panel C


def numbers(
    seed: int = 0, learning_rate: float = 0.01, pretraining: float = 20.0, training: float = 30.0
) -> dict[str, Any]:
    """learning_rate: η, of both trainings. pretraining, training: their lengths, in τ.

    `simulated_loss`, `theory_loss`: (`lambdas`,). `simulated`, `theory`: the feature of each item, (`shown`, items);
    `expected`: (items,). `difference`: the largest of the feature, whose value for the trained item is 1.
    """
    rng = np.random.default_rng(seed)
    task = semantic_hierarchy()
    size = len(ITEMS)
    w1, w2 = learnable_starts(task.sigma_yx, LAMBDAS, rng)
    steps = round(pretraining / learning_rate)
    learned, _ = gradient_descent(w1, w2, task.sigma_yx, steps, learning_rate, every=steps)
    hidden = learned[-1] @ task.x  # (λ, N_h, items)
    row = learn_feature(
        hidden, rng.normal(0.0, 1e-4, (len(LAMBDAS), size)), learning_rate, round(training / learning_rate)
    )
    simulated = np.einsum("lh,lhp->lp", row, hidden)
    theory = np.stack([new_feature(converged(task.sigma_yx, lam).w1tw1, task.x, TRAINED) for lam in LAMBDAS])
    expected = hierarchy_feature(task, TRAINED)
    shown = [LAMBDAS.index(lam) for lam in SHOWN]
    return {
        "items": list(ITEMS),
        "trained": TRAINED,
        "lambdas": list(LAMBDAS),
        "simulated_loss": plain(generalisation_loss(simulated, expected, TRAINED)),
        "theory_loss": plain(generalisation_loss(theory, expected, TRAINED)),
        "shown": list(SHOWN),
        "simulated": plain(simulated[shown]),
        "theory": plain(theory[shown]),
        "expected": plain(expected),
        "difference": difference(simulated, theory),
    }


def learnable_starts(sigma_yx: Array, lambdas: Sequence[float], rng: np.random.Generator) -> tuple[Array, Array]:
    """Starts of Algorithm 1 with σ = 0.1 that can learn a square task, (N, N): (λ, N, N), (λ, N, N)."""
    size = len(sigma_yx)
    starts = [learnable(*balanced_init(lam, size, size, size, scale=0.1, rng=rng), sigma_yx) for lam in lambdas]
    w1, w2 = (np.stack(layer) for layer in zip(*starts, strict=True))
    return w1, w2


def learn_feature(hidden: Array, row: Array, learning_rate: float, steps: int) -> Array:
    """The new rows w of W₂, (networks, N_h), after gradient descent on ½(w·h − 1)² for the trained item alone.

    hidden: activity of the hidden units for every item, (networks, N_h, items).
    """
    trained = hidden[..., TRAINED]
    for _ in range(steps):
        row = row + learning_rate * (1 - (row * trained).sum(-1, keepdims=True)) * trained
    return row
