"""Scores of task sequences against their formulas, written as loops."""

import math

import numpy as np
import pytest

from supple.metrics import (
    average_accuracy,
    average_online_accuracy,
    backward_transfer,
    forward_transfer,
    online_generalization_gap,
    total_average_online_accuracy,
)

A = np.random.default_rng(0).uniform(size=(4, 4))
BASELINE = np.array([0.3, 0.1, 0.2, 0.15])


def test_transfer_and_accuracy_are_the_sums_of_the_paper() -> None:
    T = len(A)
    assert average_accuracy(A) == pytest.approx(sum(A[T - 1, j] for j in range(T)) / T)
    forgotten = sum(A[T - 1, j] - A[j, j] for j in range(T - 1))
    assert backward_transfer(A) == pytest.approx(forgotten / (T - 1))
    ahead = sum(A[j - 1, j] - BASELINE[j] for j in range(1, T))
    assert forward_transfer(A, BASELINE) == pytest.approx(ahead / (T - 1))
    assert average_accuracy(A[:2, :2]) == pytest.approx((A[1, 0] + A[1, 1]) / 2)


def test_only_what_a_formula_names_is_read() -> None:
    lower = np.where(np.tri(4, dtype=bool), A, np.nan)  # tasks to come were not tested
    assert backward_transfer(lower) == backward_transfer(A)
    assert average_accuracy(lower) == average_accuracy(A)
    assert math.isnan(forward_transfer(lower, BASELINE))


def test_perfect_memory_neither_forgets_nor_gains() -> None:
    assert backward_transfer(np.tile([0.9, 0.8, 0.7], (3, 1))) == 0
    assert backward_transfer([[0.9, 0.0], [0.4, 0.9]]) == pytest.approx(-0.5)


def test_one_task_has_no_transfer() -> None:
    assert average_accuracy([[0.6]]) == 0.6
    assert math.isnan(backward_transfer([[0.6]]))
    assert math.isnan(forward_transfer([[0.6]], [0.1]))


def test_total_online_accuracy_is_the_mean_over_all_batches() -> None:
    short, long = [0.0, 1.0], [1.0, 1.0, 1.0, 0.0]
    assert average_online_accuracy(long) == 0.75
    assert total_average_online_accuracy([short, long]) == pytest.approx(np.mean([*short, *long]))
    equal = total_average_online_accuracy([short, [1.0, 1.0]])
    assert equal == pytest.approx((average_online_accuracy(short) + 1.0) / 2)


def test_online_gap_is_test_minus_training() -> None:
    assert online_generalization_gap([0.9, 0.5], [0.8, 0.8]) == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: average_accuracy(A[:2]), "tasks, tasks"),
        (lambda: backward_transfer([]), "tasks, tasks"),
        (lambda: forward_transfer(A, [0.1]), "baseline"),
        (lambda: average_online_accuracy([]), "of a task"),
        (lambda: total_average_online_accuracy([]), "at least one task"),
        (lambda: total_average_online_accuracy([[]]), "of a task"),
        (lambda: online_generalization_gap([0.1], [0.1, 0.2]), "both must be"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
