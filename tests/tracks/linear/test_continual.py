"""Sequences of tasks, compared with an integrated flow; forgetting, and times to convergence."""

import math

import numpy as np
import pytest

from supple.tracks.linear.continual import follow, forgetting, time_to_converge
from supple.tracks.linear.exact import Exact
from supple.tracks.linear.flow import gradient_flow
from supple.tracks.linear.singular_values import singular_values
from supple.tracks.linear.tasks import random_regression, reversal, semantic_hierarchy
from supple.tracks.linear.weights import aligned_init, balance_residual, balanced_init


@pytest.mark.slow
@pytest.mark.parametrize(("lam", "sizes"), [(0.0, (3, 5, 4)), (1.0, (4, 3, 3)), (-2.0, (3, 2, 4))])
def test_losses_over_a_sequence_of_tasks_match_the_integrated_flow(lam: float, sizes: tuple[int, int, int]) -> None:
    n_in, n_hidden, n_out = sizes
    tasks = [random_regression(n_in, n_out, 8, scale=1.0, rng=seed) for seed in range(3)]
    W1, W2 = balanced_init(lam, n_in, n_hidden, n_out, scale=0.3, rng=0)
    times = np.linspace(0, 4, 5)
    course = follow(W1, W2, tasks, times, tau=2.0)
    for k, task in enumerate(tasks):
        first, second = gradient_flow(W1, W2, task.sigma_yx, times, tau=2.0)
        np.testing.assert_allclose(course.function[k], second @ first, atol=1e-7)
        for i, tested in enumerate(tasks):
            np.testing.assert_allclose(course.losses[k, :, i], tested.loss(second @ first), atol=1e-7)
        W1, W2 = first[-1], second[-1]
    assert (course.W1.shape, course.W2.shape) == (W1.shape, W2.shape)
    np.testing.assert_allclose(course.W2 @ course.W1, W2 @ W1, atol=1e-7)
    assert balance_residual(course.W1, course.W2, lam) < 1e-9


def test_forgetting_after_convergence_is_the_closed_form_whatever_lambda_is() -> None:
    tasks = [random_regression(4, 3, 8, scale=1.5, rng=seed) for seed in range(3)]
    for lam in (0.0, 3.0):
        losses = follow(*balanced_init(lam, 4, 3, 3, rng=1), tasks, [0.0, 1e5]).losses[:, -1]
        for i, j, k in [(0, 0, 1), (0, 1, 2), (1, 0, 2), (2, 0, 1)]:
            assert losses[k, i] - losses[j, i] == pytest.approx(forgetting(tasks, i, j, k), abs=1e-9)
    distance = np.square(tasks[0].sigma_yx - tasks[1].sigma_yx).sum() / 2
    assert forgetting(tasks, 0, 0, 1) == pytest.approx(distance)


def test_a_sequence_can_continue_from_a_network_that_learned_nothing() -> None:
    """All hidden units are zero: the factor of QQᵀ has no columns."""
    task = random_regression(3, 2, 5, rng=0)
    course = follow(np.zeros((2, 3)), np.zeros((2, 2)), [task, task], [0.0, 10.0])
    assert (course.function == 0).all()
    assert course.W1.shape == (2, 3)


@pytest.mark.parametrize("lam", [-2.0, 0.3, 4.0])
def test_reversal_of_a_learnt_task_is_a_singular_value_with_a_negative_start(lam: float) -> None:
    task = semantic_hierarchy()
    again = reversal(task, columns=[0])
    target = np.linalg.svd(task.sigma_yx, compute_uv=False)
    times = np.linspace(0, 3, 7)
    W1, W2 = aligned_init(task.sigma_yx, target, lam, rng=0)
    course = follow(W1, W2, [again], times)
    curve = singular_values(times, target[0], -target[0], lam)
    np.testing.assert_allclose(course.losses[0, :, 0] - again.least_loss, (target[0] - curve) ** 2 / 2, atol=1e-10)


@pytest.mark.slow
def test_time_to_converge_is_when_the_loss_crosses_the_threshold() -> None:
    sigma = np.random.default_rng(0).normal(size=(3, 4))
    for tau in (1.0, 50.0):
        exact = Exact(*balanced_init(0.5, 4, 3, 3, scale=0.1, rng=1), sigma, tau)
        time = time_to_converge(exact, sigma, 1e-3)
        loss = np.square(exact.function([time * (1 - 1e-9), time]) - sigma).sum((1, 2)) / 2
        assert loss[1] <= 1e-3 < loss[0]
    assert time_to_converge(exact, sigma, 1e3) == 0.0
    saddle = Exact(*aligned_init(sigma, -np.linalg.svd(sigma)[1], 0.0, rng=0), sigma)
    assert time_to_converge(saddle, sigma, 1e-3) == math.inf
