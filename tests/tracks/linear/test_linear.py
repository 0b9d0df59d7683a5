"""Tasks, noise, transfer and sequences of linear networks: closed forms against sampling, training and the flow."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from supple.tracks.linear import (
    Exact,
    add_feature,
    aligned_init,
    balanced_init,
    converged_norms,
    converged_parameter_noise_loss,
    converged_quadrants,
    follow,
    forgetting,
    generalisation_loss,
    gradient_flow,
    hierarchy_feature,
    new_feature,
    parameter_noise_loss,
    random_regression,
    reversal,
    scale_targets,
    semantic_hierarchy,
    time_to_converge,
)
from supple.tracks.linear.tasks import FEATURES, ITEMS


def test_random_inputs_are_white_and_targets_have_the_scale_asked_for() -> None:
    task = random_regression(5, 4, 2000, rng=0)
    assert_allclose(task.x @ task.x.T / 2000, np.eye(5), atol=1e-13)
    assert task.y.std() == pytest.approx(0.5, rel=0.03)
    assert random_regression(5, 4, 2000, 3.0, 0).y.std() == pytest.approx(3.0, rel=0.03)


def test_the_loss_is_the_mean_over_the_examples() -> None:
    task = random_regression(3, 2, 7, rng=0)
    maps = np.random.default_rng(1).normal(size=(4, 2, 3))
    plain = [np.square(each @ task.x - task.y).sum(0).mean() / 2 for each in maps]
    assert_allclose(task.loss(maps), plain, rtol=1e-12)
    assert task.loss(task.sigma_yx) == pytest.approx(task.least_loss)
    assert task.loss(maps).min() > task.least_loss > 0


def test_the_hierarchy_has_the_singular_values_of_its_tree_and_targets_encode_the_place_in_it() -> None:
    """The paper's example: a left child of the root and of the animals, a right one of the fish."""
    task = semantic_hierarchy(0.0)
    values = np.linalg.svd(task.sigma_yx)[1] * np.sqrt(8)
    assert_allclose(values, np.sqrt([8, 8, 4, 4, 2, 2, 2, 2]), atol=1e-13)
    assert (np.diff(np.linalg.svd(semantic_hierarchy().sigma_yx)[1]) < -1e-4).all()
    assert task.y[:, 1].tolist() == [1, 1, 1, 0, -1, 0, 0, 0]
    assert task.y.shape == (len(FEATURES), len(ITEMS))


def test_changed_tasks_differ_in_what_was_asked_for_alone() -> None:
    task = random_regression(4, 3, 9, rng=2)
    left, values, right = np.linalg.svd(task.sigma_yx, full_matrices=False)
    turned = reversal(task)
    assert_allclose(turned.sigma_yx, (left * values * [-1, 1, 1]) @ right, atol=1e-13)
    assert turned.least_loss == pytest.approx(task.least_loss)
    assert_allclose(scale_targets(task, 3.0).sigma_yx, 3 * task.sigma_yx)
    np.testing.assert_array_equal(add_feature(task, 2, 5).y - task.y, (1 - task.y) * (task.y == task.y[2, 5]))


def test_parameter_noise_is_exact_for_two_point_noise_of_one_unit() -> None:
    """All 2⁵ corners ±σ of (1, 3)- and (2, 1)-shaped weights: their mean has the moments of any such noise."""
    rng, std = np.random.default_rng(1), 0.7
    W1, W2, sigma = rng.normal(size=(1, 3)), rng.normal(size=(2, 1)), rng.normal(size=(2, 3))
    corners = std * (1 - 2 * ((np.arange(32)[:, None] >> np.arange(5)) & 1))
    noisy = (W2 + corners[:, :2, None]) @ (W1 + corners[:, None, 2:])
    rise = np.square(noisy - sigma).sum((-2, -1)).mean() / 2 - np.square(W2 @ W1 - sigma).sum() / 2
    assert parameter_noise_loss(W1, W2, std) == pytest.approx(rise)


@pytest.mark.parametrize(("lam", "n_in", "n_out"), [(-2.0, 4, 4), (3.0, 5, 3), (-3.0, 5, 3), (2.0, 3, 5)])
def test_converged_networks_have_these_norms(lam: float, n_in: int, n_out: int) -> None:
    rng = np.random.default_rng(2)
    sigma = rng.normal(size=(n_out, n_in))
    W1, W2 = balanced_init(lam, n_in, min(n_in, n_out), n_out, rng=rng)
    end = Exact(W1, W2, sigma).factor(1e3)[0]
    W1, W2 = end[:n_in].T, end[n_in:]
    assert_allclose(converged_norms(sigma, lam), [np.square(W1).sum(), np.square(W2).sum()])
    assert_allclose(converged_parameter_noise_loss(sigma, lam, 0.3), parameter_noise_loss(W1, W2, 0.3))


TASK = semantic_hierarchy()
TARGET = np.linalg.svd(TASK.sigma_yx, compute_uv=False)


@pytest.mark.parametrize("lam", [-2.0, 0.0, 2.0])
def test_training_the_row_from_zero_gives_the_closed_form(lam: float) -> None:
    W1, _ = aligned_init(TASK.sigma_yx, TARGET, lam, rng=0)
    hidden, row = W1 @ TASK.x, np.zeros(8)
    trained = hidden[:, 1]
    for _ in range(100):
        row += 0.5 / np.square(trained).sum() * (1 - row @ trained) * trained
    for w1tw1 in (W1.T @ W1, converged_quadrants(TASK.sigma_yx, lam).w1tw1):
        assert_allclose(new_feature(w1tw1, TASK.x, 1), row @ hidden, atol=1e-10)


def test_generalisation_improves_with_lambda_from_nothing_to_the_hierarchy() -> None:
    lams = np.array([-1e4, -10, -5, -2, -1, 0, 1, 2, 5, 10, 1e4])
    kernels = np.stack([converged_quadrants(TASK.sigma_yx, lam).w1tw1 for lam in lams])
    features = new_feature(kernels, TASK.x, 0)
    assert features.shape == (11, 8)
    losses = generalisation_loss(features, hierarchy_feature(TASK, 0), 0)
    assert (np.diff(losses) < 0).all()
    assert losses[-1] < 1e-15
    assert_allclose(features[0], np.eye(8)[0], atol=1e-6)
    assert_allclose(features[-1], hierarchy_feature(TASK, 0), atol=1e-6)


def test_the_hierarchy_gives_the_feature_to_relatives_by_degree_and_the_trained_item_does_not_count() -> None:
    feature = hierarchy_feature(TASK, 0)
    assert feature[0] == pytest.approx(1.0)
    assert feature[0] > feature[1] > feature[2] > feature[4] + 0.05  # salmon, canary, kelp
    assert_allclose(feature[4:], 0, atol=1e-12)
    assert generalisation_loss(np.array([9.0, 0.5, 2.0]), np.array([1.0, 0.5, 0.0]), item=0) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("lam", "sizes"), [(0.0, (3, 5, 4)), (1.0, (4, 3, 3)), (-2.0, (3, 2, 4))])
def test_functions_over_a_sequence_of_tasks_match_the_integrated_flow(lam: float, sizes: tuple[int, int, int]) -> None:
    n_in, n_hidden, n_out = sizes
    tasks = [random_regression(n_in, n_out, 8, scale=1.0, rng=seed) for seed in range(3)]
    start, times = balanced_init(lam, n_in, n_hidden, n_out, scale=0.3, rng=0), np.linspace(0, 4, 5)
    for task, function in zip(tasks, follow(*start, tasks, times, tau=2.0), strict=True):
        first, second = gradient_flow(*start, task.sigma_yx, times, tau=2.0)
        assert_allclose(function, second @ first, atol=1e-7)
        start = first[-1], second[-1]


def test_forgetting_after_convergence_is_the_closed_form_whatever_lambda_is() -> None:
    tasks = [random_regression(4, 3, 8, scale=1.5, rng=seed) for seed in range(3)]
    for lam in (0.0, 3.0):
        learned = follow(*balanced_init(lam, 4, 3, 3, rng=1), tasks, [0.0, 1e5])[:, -1]
        losses = np.stack([task.loss(learned) for task in tasks], axis=-1)
        for i, j, k in [(0, 0, 1), (0, 1, 2), (1, 0, 2), (2, 0, 1)]:
            assert losses[k, i] - losses[j, i] == pytest.approx(forgetting(tasks, i, j, k), abs=1e-9)
    distance = np.square(tasks[0].sigma_yx - tasks[1].sigma_yx).sum() / 2
    assert forgetting(tasks, 0, 0, 1) == pytest.approx(distance)


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
