"""Scores of task sequences against their formulas, written as loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some

from supple.metrics import (
    average_accuracy,
    average_online_accuracy,
    backward_transfer,
    domain_average,
    domain_last,
    domain_transfer,
    forgetting,
    forward_transfer,
    intransigence,
    isolated_forgetting,
    learning_curve_transfer,
    online_generalization_gap,
    order_disparity,
    overall_performance,
    share_of_fresh,
    task_forgetting,
    total_average_online_accuracy,
    zero_shot_transfer,
)

A = np.random.default_rng(0).uniform(size=(4, 4))
BASELINE = np.array([0.3, 0.1, 0.2, 0.15])
shares = st.floats(0, 1)
matrices = st.integers(1, 6).flatmap(lambda tasks: some.arrays(float, (tasks, tasks), elements=shares))


def test_transfer_and_accuracy_are_the_sums_of_the_paper() -> None:
    T = len(A)
    assert average_accuracy(A) == pytest.approx(sum(A[T - 1, j] for j in range(T)) / T)
    forgotten = sum(A[T - 1, j] - A[j, j] for j in range(T - 1))
    assert backward_transfer(A) == pytest.approx(forgotten / (T - 1))
    ahead = sum(A[j - 1, j] - BASELINE[j] for j in range(1, T))
    assert forward_transfer(A, BASELINE) == pytest.approx(ahead / (T - 1))
    assert average_accuracy(A[:2, :2]) == pytest.approx((A[1, 0] + A[1, 1]) / 2)


def test_domain_scores_are_means_over_the_times_before_learning_over_all_and_at_the_end() -> None:
    T = len(A)
    for j in range(1, T):
        assert domain_transfer(A)[j] == pytest.approx(sum(A[i, j] for i in range(j)) / j)
    assert math.isnan(domain_transfer(A)[0])
    np.testing.assert_allclose(domain_average(A), [sum(A[i, j] for i in range(T)) / T for j in range(T)])
    np.testing.assert_array_equal(domain_last(A), A[T - 1])


def test_a_model_that_never_changes_transfers_what_it_could_do_at_first() -> None:
    zero_shot = [0.235, 0.768, 0.373, 0.367, 0.636, 0.840, 0.467, 0.867, 0.661, 0.637]  # MoRAM paper, Table 1
    frozen = np.tile(zero_shot, (10, 1))
    assert np.nanmean(domain_transfer(frozen)) == pytest.approx(0.624, abs=5e-4)
    assert domain_last(frozen).mean() == pytest.approx(0.585, abs=5e-4)


def test_forgetting_is_backward_transfer_with_the_other_sign() -> None:
    T = len(A)
    assert forgetting(A) == pytest.approx(sum(A[j, j] - A[T - 1, j] for j in range(T - 1)) / (T - 1))
    assert forgetting(A) == -backward_transfer(A)
    assert forgetting([[0.9, 0.0], [0.4, 0.9]]) == pytest.approx(0.5)
    assert overall_performance(A) == average_accuracy(A)


@pytest.mark.parametrize(
    ("orders", "printed"),
    [([18.9, 24.9, 41.7], 11.82), ([67.6, 72.6, 77.9], 5.15), ([75.4, 75.7, 76.3], 0.46), ([77.4, 77.5, 77.9], 0.26)],
)
def test_order_disparity_is_that_of_table_14(orders: list[float], printed: float) -> None:
    assert order_disparity(orders) == pytest.approx(printed, abs=0.005)


def test_entries_outside_a_formula_may_be_nan() -> None:
    lower = np.where(np.tri(4, dtype=bool), A, np.nan)  # tasks to come were not tested
    assert backward_transfer(lower) == backward_transfer(A)
    assert average_accuracy(lower) == average_accuracy(A)
    assert math.isnan(forward_transfer(lower, BASELINE))


def test_perfect_memory_neither_forgets_nor_gains() -> None:
    assert backward_transfer(np.tile([0.9, 0.8, 0.7], (3, 1))) == 0
    assert backward_transfer([[0.9, 0.0], [0.4, 0.9]]) == pytest.approx(-0.5)


def test_a_stream_of_three_tasks_by_hand() -> None:
    nothing = np.nan
    R = [[0.8, nothing, nothing], [0.5, 0.6, nothing], [0.2, 0.7, 0.9]]
    np.testing.assert_allclose(task_forgetting(R), [0.6, -0.1, 0.0])
    np.testing.assert_allclose(intransigence(R, [0.8, 0.9, 0.8]), [0.0, 0.3, -0.1])
    np.testing.assert_allclose(isolated_forgetting(R), [[nothing] * 3, [0.3, nothing, nothing], [0.3, -0.1, nothing]])
    assert np.isnan(zero_shot_transfer(R, 0.0)).all()  # tasks to come were not tested
    everywhere = [[0.8, 0.3, 0.1], [0.5, 0.6, 0.4], [0.2, 0.7, 0.9]]
    expected = [[nothing, 0.2, 0.1], [nothing, nothing, 0.3], [nothing] * 3]
    np.testing.assert_allclose(zero_shot_transfer(everywhere, [0.0, 0.1, 0.0]), expected)
    np.testing.assert_allclose(isolated_forgetting(everywhere, [2.0, 1.0, 1.0])[1:, 0], [0.15, 0.15])
    np.testing.assert_allclose(learning_curve_transfer([0.7, 0.2, 0.5], [0.4, 0.4, 1.0]), [0.5, -1 / 3, nothing])


def test_an_entry_that_was_not_measured_is_not_read_as_a_number() -> None:
    R = np.array([[0.8, np.nan], [np.nan, 0.6]])
    assert np.isnan([forgetting(R), backward_transfer(R), average_accuracy(R), task_forgetting(R)[0]]).all()
    assert math.isnan(intransigence(R, [np.nan, 0.5])[0])
    assert math.isnan(isolated_forgetting(R)[1, 0])


@given(matrices)
def test_what_single_tasks_take_sums_to_what_is_forgotten_and_gains_to_forward_transfer(R) -> None:
    tasks = len(R)
    taken, given_ = isolated_forgetting(R), zero_shot_transfer(R, 0.5)
    np.testing.assert_allclose(np.nansum(taken, 0), task_forgetting(R), atol=1e-12)
    np.testing.assert_allclose(np.nansum(given_, 0)[1:], R.diagonal(1) - 0.5, atol=1e-12)
    for of_pairs, read in ((taken, np.tri(tasks, k=-1)), (given_, 1 - np.tri(tasks))):
        np.testing.assert_array_equal(np.isfinite(of_pairs), read.astype(bool))
        assert not of_pairs.size or np.nan_to_num(np.abs(of_pairs)).max() <= 1


@given(matrices)
def test_forgetting_is_bounded_and_that_of_the_last_task_is_0(R) -> None:
    found = task_forgetting(R)
    assert np.abs(found).max() <= 1
    assert found[-1] == 0
    if len(R) > 1:
        assert forgetting(R) == pytest.approx(found.sum() / (len(R) - 1))


@given(matrices, st.randoms())
def test_forgetting_does_not_depend_on_the_order_of_the_tasks_before_the_last(R, random) -> None:
    order = [*random.sample(range(len(R) - 1), len(R) - 1), len(R) - 1]
    moved = R[np.ix_(order, order)]
    np.testing.assert_array_equal(task_forgetting(moved), task_forgetting(R)[order])
    reference = np.linspace(0, 1, len(R))
    np.testing.assert_array_equal(intransigence(moved, reference[order]), intransigence(R, reference)[order])


@given(some.arrays(float, 5, elements=shares))
def test_a_network_that_never_forgets_has_forgetting_0(learned) -> None:
    frozen = np.tile(learned, (5, 1))
    assert (task_forgetting(frozen) == 0).all()
    assert (np.nan_to_num(isolated_forgetting(frozen)) == 0).all()
    assert (intransigence(frozen, learned) == 0).all()


@given(some.arrays(float, 5, elements=shares), some.arrays(float, 5, elements=st.floats(0, 0.99)))
def test_transfer_of_learning_curves_is_at_most_1_and_has_the_sign_of_the_difference(area, reference) -> None:
    found = learning_curve_transfer(area, reference)
    assert (found <= 1 + 1e-9).all()
    np.testing.assert_array_equal(np.sign(found), np.sign(area - reference))
    assert (learning_curve_transfer(reference, reference) == 0).all()


@given(st.floats(-100, 100), st.floats(1e-2, 100))
def test_forgetting_of_scaled_returns_does_not_depend_on_the_units_of_returns(offset, unit) -> None:
    scaled = share_of_fresh(A, A.diagonal(), -1.0)
    other = share_of_fresh(unit * A + offset, unit * A.diagonal() + offset, -unit + offset)
    np.testing.assert_allclose(task_forgetting(other), task_forgetting(scaled), atol=1e-6)
    np.testing.assert_allclose(scaled.diagonal(), 1.0)


def test_one_task_has_no_transfer() -> None:
    assert average_accuracy([[0.6]]) == 0.6
    assert math.isnan(backward_transfer([[0.6]]))
    assert math.isnan(forward_transfer([[0.6]], [0.1]))
    assert math.isnan(forgetting([[0.6]]))
    assert np.isnan(domain_transfer([[0.6]])).all()
    assert math.isnan(order_disparity([0.6]))


def test_total_online_accuracy_is_the_mean_over_all_batches() -> None:
    short, long = [0.0, 1.0], [1.0, 1.0, 1.0, 0.0]
    assert average_online_accuracy(long) == 0.75
    assert total_average_online_accuracy([short, long]) == pytest.approx(np.mean([*short, *long]))
    equal = total_average_online_accuracy([short, [1.0, 1.0]])
    assert equal == pytest.approx((average_online_accuracy(short) + 1.0) / 2)


def test_online_gap_is_test_minus_training() -> None:
    assert online_generalization_gap([0.9, 0.5], [0.8, 0.8]) == pytest.approx(-0.1)


@pytest.mark.parametrize("scores", [A[:2], A[0], []])
def test_scores_that_are_no_square_are_refused(scores) -> None:
    with pytest.raises(ValueError, match="tasks, tasks"):
        task_forgetting(scores)
