"""Ranks, dormant units and covariance distance against plain loops, SVD and scipy."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from supple.metrics import (
    activity_scores,
    dormant_fraction,
    effective_rank,
    feature_covariance_distance,
    feature_rank,
    numerical_rank,
    srank,
)

sizes = st.integers(1, 9)
seeds = st.integers(0, 10_000)
deltas = st.sampled_from([0.0, 0.01, 0.1, 0.5])
few = settings(max_examples=25)


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(d: int, seed: int = 0) -> Tensor:
    return torch.linalg.qr(gaussian(d, d, seed=seed)).Q


# --- ranks -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@few
@given(sizes, sizes, seeds, deltas)
def test_srank_equals_a_loop_over_singular_values(n: int, d: int, seed: int, delta: float) -> None:
    features = gaussian(n, d, seed=seed)
    values = scipy.linalg.svdvals(features.numpy())
    k, held = 0, 0.0
    while held < (1 - delta) * values.sum() * (1 - 1e-12):
        held += values[k]
        k += 1
    assert srank(features, delta) == k


@pytest.mark.slow
@few
@given(sizes, sizes, seeds)
def test_effective_rank_is_exp_of_the_entropy(n: int, d: int, seed: int) -> None:
    features = gaussian(n, d, seed=seed)
    entropy = scipy.stats.entropy(scipy.linalg.svdvals(features.numpy()))
    assert effective_rank(features) == pytest.approx(math.exp(entropy), rel=1e-9)
    assert 1 - 1e-9 <= effective_rank(features) <= min(n, d) + 1e-9


@pytest.mark.slow
@few
@given(sizes, sizes, seeds, st.floats(1e-3, 10))
def test_feature_rank_counts_directions_that_are_large_enough(n: int, d: int, seed: int, scale: float) -> None:
    features = scale * gaussian(n, d, seed=seed)
    values = scipy.linalg.svdvals(features.numpy() / math.sqrt(n))
    assert feature_rank(features, 0.5) == sum(value > 0.5 for value in values)
    assert feature_rank(features) == sum(value > 0.01 for value in values)
    assert feature_rank(1e-6 * features) == 0  # unlike the others, it sees the scale


@pytest.mark.slow
@few
@given(sizes, sizes, st.integers(0, 9), seeds, st.sampled_from([torch.float32, torch.float64]))
def test_numerical_rank_is_that_of_linear_algebra(n: int, d: int, rank: int, seed: int, dtype: torch.dtype) -> None:
    features = (gaussian(n, rank, seed=seed) @ gaussian(rank, d, seed=seed + 1)).to(dtype)
    assert numerical_rank(features) == np.linalg.matrix_rank(features.numpy()) == min(n, d, rank)
    assert numerical_rank(1e-6 * features) == min(n, d, rank)


@few
@given(sizes, sizes, seeds, st.floats(1e-6, 1e6), deltas)
def test_ranks_do_not_change_with_rotation_and_scale(n: int, d: int, seed: int, scale: float, delta: float) -> None:
    features = gaussian(n, d, seed=seed)
    turned = scale * rotation(n, seed + 1) @ features @ rotation(d, seed + 2)
    assert srank(turned, delta) == srank(features, delta)
    assert effective_rank(turned) == pytest.approx(effective_rank(features), rel=1e-9)


def test_ranks_of_known_spectra() -> None:
    assert srank(torch.eye(100)) == 99  # a tie: exactly 99 % after 99 of 100
    assert srank(3e-7 * torch.eye(100)) == 99
    assert effective_rank(torch.eye(100)) == pytest.approx(100)
    assert srank(torch.ones(6, 4)) == 1
    assert effective_rank(torch.ones(6, 4)) == pytest.approx(1)
    assert srank(torch.diag(torch.tensor([9.0, 0.95, 0.05])), delta=0.01) == 2


def test_ranks_of_a_dead_layer_are_zero() -> None:
    assert [rank(torch.zeros(5, 3)) for rank in (srank, feature_rank, numerical_rank, effective_rank)] == [0] * 4


def test_convolution_features_are_flattened_and_tokens_are_rows() -> None:
    images, tokens = gaussian(6, 2, 3, 3), gaussian(4, 5, 3)
    assert effective_rank(images) == pytest.approx(effective_rank(images.reshape(6, 18)), rel=1e-12)
    assert effective_rank(tokens) == pytest.approx(effective_rank(tokens.reshape(20, 3)), rel=1e-12)
    assert srank(images, 0.1) == srank(images.reshape(6, 18), 0.1)


@pytest.mark.parametrize("measure", [srank, effective_rank, feature_rank, numerical_rank, dormant_fraction])
def test_features_that_are_not_finite_are_refused(measure: Callable[[Tensor], float]) -> None:
    with pytest.raises(ValueError, match="NaN or infinity"):
        measure(torch.tensor([[1.0, math.nan]]))


# --- dormant units -----------------------------------------------------------------------------------------


def loop_scores(activations: np.ndarray) -> np.ndarray:
    """Mean |h| of each unit over that of the layer, one unit at a time; units in dimension 1 or last."""
    axis = 1 if activations.ndim >= 4 else activations.ndim - 1
    means = [np.abs(np.take(activations, i, axis)).mean() for i in range(activations.shape[axis])]
    return np.array(means) / (np.mean(means) + 1e-9)


@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 5), (3, 5, 2, 4), (2, 5, 2, 2, 3)])
@pytest.mark.parametrize("tau", [0.0, 0.5, 0.9])
def test_dormant_fraction_matches_a_loop_over_units(shape: tuple[int, ...], tau: float) -> None:
    activations = gaussian(*shape, seed=4).relu()
    activations.movedim(1 if len(shape) >= 4 else -1, 0)[2] = 0.0
    scores = loop_scores(activations.numpy())
    assert len(scores) == 5
    np.testing.assert_allclose(activity_scores(activations).numpy(), scores, rtol=1e-12)
    assert dormant_fraction(activations, tau) == pytest.approx((scores <= tau).mean())
    assert dormant_fraction(activations, tau) >= 0.2


def test_a_unit_is_dormant_at_zero_only_if_silent_on_every_input() -> None:
    activations = torch.ones(10, 4)
    activations[:, 0] = 0.0
    activations[1:, 1] = 0.0  # fires once
    assert dormant_fraction(activations) == 0.25
    assert dormant_fraction(activations, tau=0.2) == 0.5
    assert dormant_fraction(-activations) == 0.25  # magnitude counts, not sign
    assert dormant_fraction(torch.zeros(4, 3)) == 1.0


def test_dormant_fraction_pools_units_of_all_layers() -> None:
    narrow, wide = torch.ones(4, 2), torch.zeros(4, 8, 3, 3)
    wide[:, :6] = 1.0
    narrow[:, 0] = 0.0
    assert dormant_fraction([narrow, wide]) == 3 / 10  # not the mean of 1/2 and 1/4
    assert dormant_fraction([narrow, wide], per_layer=True) == {"0": 0.5, "1": 0.25}
    assert dormant_fraction({"fc": narrow, "conv": wide}, per_layer=True) == {"fc": 0.5, "conv": 0.25}


def test_dormant_fraction_does_not_change_with_the_layers_scale() -> None:
    activations = gaussian(20, 16, seed=5).relu() * torch.linspace(0, 1, 16, dtype=torch.float64)
    assert dormant_fraction(100 * activations, 0.3) == dormant_fraction(activations, 0.3) > 0


# --- covariance distance -----------------------------------------------------------------------------------


@pytest.mark.slow
@few
@given(sizes, sizes, sizes, seeds)
def test_covariance_distance_equals_the_explicit_matrices(n: int, d_a: int, d_b: int, seed: int) -> None:
    a, b = gaussian(n, d_a, seed=seed), gaussian(n, d_b, seed=seed + 1)
    covariances = [(h @ h.T / h.square().sum()).numpy() for h in (a, b)]
    distance = feature_covariance_distance(a, b)
    assert distance == pytest.approx(np.linalg.norm(covariances[0] - covariances[1]), rel=1e-6, abs=1e-7)
    assert 0 <= distance <= math.sqrt(2) + 1e-9
    assert distance == pytest.approx(feature_covariance_distance(b, a), abs=1e-7)


@pytest.mark.parametrize(("n", "d"), [(4, 9), (30, 3)])
def test_covariance_distance_ignores_rotation_and_scale_of_features(n: int, d: int) -> None:
    features = gaussian(n, d)
    assert feature_covariance_distance(features, features) == 0.0
    assert feature_covariance_distance(features, 5 * features @ rotation(d)) < 1e-7
    assert feature_covariance_distance(features, gaussian(n, d, seed=9)) > 0.1


def test_covariance_distance_is_largest_for_features_on_different_inputs() -> None:
    a, b = torch.zeros(10, 2), torch.zeros(10, 3)
    a[0, 0], b[1, 0] = 3.0, 0.1
    assert feature_covariance_distance(a, b) == pytest.approx(math.sqrt(2))


def test_covariance_distance_of_dead_features_is_nan() -> None:
    for features in (torch.zeros(4, 2), torch.full((4, 2), math.inf)):
        assert math.isnan(feature_covariance_distance(features, torch.ones(4, 2)))
