"""Tasks: white inputs, the loss that depends on Σyx alone, and the hierarchy of items."""

import numpy as np
import pytest

from supple.tracks.linear import random_regression, reversal, scale_targets, semantic_hierarchy
from supple.tracks.linear.tasks import FEATURES, ITEMS, add_feature


def test_random_inputs_are_white_and_targets_have_the_scale_asked_for() -> None:
    task = random_regression(5, 4, 2000, rng=0)
    np.testing.assert_allclose(task.x @ task.x.T / 2000, np.eye(5), atol=1e-13)
    assert task.y.std() == pytest.approx(0.5, rel=0.03)
    assert random_regression(5, 4, 2000, 3.0, 0).y.std() == pytest.approx(3.0, rel=0.03)


def test_the_loss_is_the_mean_over_the_examples() -> None:
    task = random_regression(3, 2, 7, rng=0)
    maps = np.random.default_rng(1).normal(size=(4, 2, 3))
    plain = [np.square(each @ task.x - task.y).sum(0).mean() / 2 for each in maps]
    np.testing.assert_allclose(task.loss(maps), plain, rtol=1e-12)
    assert task.loss(task.sigma_yx) == pytest.approx(task.least_loss)
    assert task.loss(maps).min() > task.least_loss > 0


def test_the_hierarchy_has_the_singular_values_of_its_tree() -> None:
    values = np.linalg.svd(semantic_hierarchy(0.0).sigma_yx)[1] * np.sqrt(8)
    np.testing.assert_allclose(values, np.sqrt([8, 8, 4, 4, 2, 2, 2, 2]), atol=1e-13)
    assert (np.diff(np.linalg.svd(semantic_hierarchy().sigma_yx)[1]) < -1e-4).all()


def test_the_targets_of_an_item_encode_its_place_in_the_tree() -> None:
    """The paper's example: a left child of the root and of the animals, a right one of the fish."""
    task = semantic_hierarchy(0.0)
    assert task.y[:, 1].tolist() == [1, 1, 1, 0, -1, 0, 0, 0]
    assert len(ITEMS) == len(FEATURES) == 8
    similar = task.y.T @ task.y
    assert similar[0, 1] > similar[0, 2] > similar[0, 4]


def test_a_reversal_turns_the_sign_of_the_directions_asked_for_and_keeps_what_cannot_be_fitted() -> None:
    task = random_regression(4, 3, 9, rng=2)
    left, values, right = np.linalg.svd(task.sigma_yx, full_matrices=False)
    turned = reversal(task, (0, 2))
    np.testing.assert_allclose(turned.sigma_yx, (left * values * [-1, 1, -1]) @ right, atol=1e-13)
    assert turned.least_loss == pytest.approx(task.least_loss)
    np.testing.assert_allclose(scale_targets(task, 3.0).sigma_yx, 3 * task.sigma_yx)


def test_a_feature_is_added_to_one_item() -> None:
    task = semantic_hierarchy()
    changed = add_feature(task, 5, 0)
    assert np.argwhere(changed.y != task.y).tolist() == [[5, 0]]
    assert changed.y[5, 0] == 1
