"""Transfer of a new feature: the closed form against training the row, and what it depends on."""

import numpy as np
import pytest

from supple.tracks.linear.representations import converged_quadrants
from supple.tracks.linear.tasks import semantic_hierarchy
from supple.tracks.linear.transfer import generalisation_loss, hierarchy_feature, new_feature
from supple.tracks.linear.weights import aligned_init

TASK = semantic_hierarchy()
TARGET = np.linalg.svd(TASK.sigma_yx, compute_uv=False)


@pytest.mark.parametrize("lam", [-2.0, 0.0, 2.0])
def test_training_the_row_from_zero_gives_the_closed_form(lam: float) -> None:
    W1, _ = aligned_init(TASK.sigma_yx, TARGET, lam, rng=0)
    hidden = W1 @ TASK.x
    row, item = np.zeros(8), 1
    for _ in range(2000):
        row += 0.5 / np.square(hidden[:, item]).sum() * (1.5 - row @ hidden[:, item]) * hidden[:, item]
    right = row @ hidden
    np.testing.assert_allclose(new_feature(W1.T @ W1, TASK.x, item, 1.5), right, atol=1e-10)
    np.testing.assert_allclose(
        new_feature(converged_quadrants(TASK.sigma_yx, lam).w1tw1, TASK.x, item, 1.5), right, atol=1e-10
    )


def test_generalisation_improves_with_lambda_from_nothing_to_the_hierarchy() -> None:
    lams = np.array([-1e4, -10, -5, -2, -1, 0, 1, 2, 5, 10, 1e4])
    kernels = np.stack([converged_quadrants(TASK.sigma_yx, lam).w1tw1 for lam in lams])
    features = new_feature(kernels, TASK.x, 0)
    assert features.shape == (11, 8)
    losses = generalisation_loss(features, hierarchy_feature(TASK, 0), 0)
    assert (np.diff(losses) < 0).all()
    assert losses[-1] < 1e-15
    np.testing.assert_allclose(features[0], np.eye(8)[0], atol=1e-6)
    np.testing.assert_allclose(features[-1], hierarchy_feature(TASK, 0), atol=1e-6)


def test_the_hierarchy_gives_the_feature_to_relatives_by_degree() -> None:
    feature = hierarchy_feature(TASK, 0, value=2.0)
    assert feature[0] == pytest.approx(2.0)
    assert feature[0] > feature[1] > feature[2] > feature[4] + 0.1  # salmon, canary, kelp
    np.testing.assert_allclose(feature[4:], 0, atol=1e-12)


def test_the_trained_item_does_not_count() -> None:
    expected = np.array([1.0, 0.5, 0.0])
    assert generalisation_loss(np.array([9.0, 0.5, 2.0]), expected, item=0) == pytest.approx(1.0)
