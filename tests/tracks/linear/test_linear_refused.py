"""What the theory refuses: shapes, numbers and times that make no sense, and what has no solution, in one line."""

from collections.abc import Callable

import numpy as np
import pytest

from supple.tracks.linear import (
    LinearTask,
    balanced_init,
    converged_quadrants,
    exact_qq,
    new_feature,
    random_regression,
)
from supple.tracks.linear.weights import balanced_factors
from tests.tracks.logs import refusal

I2, I3 = np.eye(2), np.eye(3)
W1, W2 = balanced_init(1.0, 3, 3, 3, rng=0)

CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: exact_qq(np.ones((2, 4)), W2, I3, [1.0]), "W1 is (N_h, N_i), W2 (N_o, N_h) and sigma_yx"),
    (lambda: exact_qq(np.ones((3, 3)), W2, I3, [1.0]), "not λ-balanced"),
    (lambda: exact_qq(W1, W2, I3, [1.0], tau=0.0), "tau must be finite and > 0"),
    (lambda: exact_qq(W1, W2, I3, [-1.0]), "times must be finite and ≥ 0"),
    (lambda: LinearTask(I3, I3), "not whitened"),
    (lambda: random_regression(4, 2, 3), "3 inputs of 4 dimensions cannot be whitened"),
    (lambda: converged_quadrants(np.eye(4, 2) * [1, 0], 1.0), "rank 1 < 2"),
    (lambda: balanced_factors(I3, 2, 0.0, I2), "rank above 2 does not pass through 2 hidden units"),
    (lambda: new_feature(np.diag([1.0, 1.0, 0.0]), I3, 2), "item 2"),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_what_makes_no_sense_or_has_no_solution_is_refused(call: Callable[[], object], words: str) -> None:
    assert words in refusal(call)
