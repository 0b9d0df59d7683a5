"""Figures 1 to 5: theory and simulation agree, and what the paper says of each figure can be read from its numbers."""

from typing import Any

import numpy as np
import pytest

from supple.tracks.linear.exact import Exact
from supple.tracks.linear.figures.runs import regression_starts
from supple.tracks.linear.representations import converged_quadrants, gram, ntk_distance
from supple.tracks.linear.tasks import random_regression
from supple.tracks.linear.weights import balance_residual
from tests.tracks.linear.figures import numbers

pytestmark = pytest.mark.slow


def test_fig1_small_balanced_weights_wait_where_unequal_layers_learn_at_once() -> None:
    times, outputs = np.array(numbers("fig1")["times"]), np.abs(numbers("fig1")["theory"])
    early = outputs[:, np.searchsorted(times, 3.0)].max(-1) / outputs[:, -1].max(-1)
    assert early[1] < 0.01
    assert min(early[0], early[2]) > 0.8


def test_fig1_lecun_weights_are_balanced_but_for_the_spread_of_theorem_a3() -> None:
    fig = numbers("fig1")
    assert fig["expected_lambda"] == pytest.approx(250 / 120 - 1)
    assert fig["measured_lambda"] == pytest.approx(fig["expected_lambda"], rel=0.1)
    # On the diagonal √2 times as wide as off it, where the paper's variance would make it twice.
    np.testing.assert_allclose(fig["spread"], fig["expected_spread"], rtol=0.2)
    np.testing.assert_allclose(fig["expected_spread"][0], (250 / 120**2 + 1 / 40) ** 0.5)


def test_fig2_the_loss_only_falls_and_ends_where_the_best_linear_map_is() -> None:
    loss = np.array(numbers("fig2")["simulated"]["loss"])[..., 0]
    assert (np.diff(loss) <= 1e-4).all()
    np.testing.assert_allclose(loss[:, -1], numbers("fig2")["least_loss"], rtol=1e-2)


def test_fig2_the_sign_of_lambda_says_which_layer_is_the_larger() -> None:
    first, second = (np.abs(numbers("fig2")["theory"][name]).max((1, 2)) for name in ("w1tw1", "w2w2t"))
    assert first[0] > second[0]
    assert second[2] > first[2]


def test_fig2_shows_the_same_runs_as_fig1() -> None:
    assert numbers("fig1")["difference_flow"] == numbers("fig2")["difference_flow"]


def test_fig3_at_zero_large_singular_values_come_first_and_else_all_at_once() -> None:
    fig = numbers("fig3")
    half = np.array(fig["simulated"]) > 0.5 * np.array(fig["targets"])
    arrival = np.array(fig["times"])[half.argmax(1)]  # (λ, N_h)
    assert (np.diff(arrival[1]) > 0.5).all()
    assert np.ptp(arrival[[0, 2]]) < 0.5
    np.testing.assert_allclose(np.array(fig["theory"])[:, -1], np.tile(fig["targets"], (3, 1)), rtol=1e-2)


def test_fig3_the_function_does_not_see_the_sign_of_lambda() -> None:
    np.testing.assert_allclose(numbers("fig3")["simulated"][0], numbers("fig3")["simulated"][2], atol=1e-5)


def from_identity(matrix: Any) -> float:
    """How far a matrix is from the nearest multiple of the identity, relative to itself."""
    values = np.array(matrix)
    return float(np.linalg.norm(values - np.trace(values) / len(values) * np.eye(len(values))) / np.linalg.norm(values))


def test_fig4_the_large_layer_forgets_the_task_and_the_small_one_keeps_it() -> None:
    simulated = numbers("fig4")["simulated"]
    inputs, outputs = ([from_identity(each) for each in simulated[name]] for name in ("rsm_input", "w2w2t"))
    assert inputs[0] < 0.5 * inputs[1] < 0.5 * inputs[2]
    assert outputs[2] < 0.5 * outputs[1] < 0.5 * outputs[0]


def test_fig4_at_zero_both_layers_hold_the_similarity_of_the_task() -> None:
    fig = numbers("fig4")
    np.testing.assert_allclose(fig["simulated"]["rsm_input"][1], 8 * np.array(fig["task_items"]), atol=1e-3)
    np.testing.assert_allclose(fig["simulated"]["w2w2t"][1], fig["task_features"], atol=1e-3)


def test_fig4_a_network_that_fits_has_one_similarity_of_items() -> None:
    for similarities in (numbers("fig4")["simulated"], numbers("fig4")["theory"]):
        np.testing.assert_allclose(similarities["rsm_input"], similarities["rsm_output"], atol=1e-3)


def test_fig4_the_singular_vectors_make_up_the_task() -> None:
    fig = numbers("fig4")
    np.testing.assert_allclose(np.array(fig["u"]) * fig["s"] @ np.transpose(fig["v"]), fig["sigma_yx"], atol=1e-5)


def test_fig4_noise_in_weights_costs_least_at_zero_and_noise_in_inputs_the_same() -> None:
    fig = numbers("fig4")
    zero = fig["noise_lambdas"].index(0.0)
    inputs, weights = (np.array(fig["noise"][name]["simulated"]) for name in ("inputs", "weights"))
    np.testing.assert_allclose(inputs, np.tile(inputs[:, :1], inputs.shape[1]), rtol=1e-3)
    np.testing.assert_allclose(weights[0], 0, atol=1e-10)
    assert (weights[1:].argmin(1) == zero).all()
    np.testing.assert_allclose(weights[1:], weights[1:, ::-1], rtol=0.05)
    assert fig["difference_noise_exact"] < 1e-2
    assert fig["difference_noise"] < 5e-2


def test_fig5_each_architecture_is_lazy_where_its_shape_lets_it() -> None:
    final = {name: np.array(values["simulated"]) for name, values in numbers("fig5")["final"].items()}
    zero = len(numbers("fig5")["lambdas"]) // 2
    assert final["funnel"][-1] < 0.01 < 0.2 < final["funnel"][0]
    assert final["inverted funnel"][0] < 0.01 < 0.2 < final["inverted funnel"][-1]
    assert final["square"].argmax() == zero
    assert max(final["square"][[0, -1]]) < 0.01


def test_square_networks_start_where_they_can_learn_at_lambda_zero() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        task = random_regression(4, 4, samples=10, rng=rng)
        for zero in (None, 1e-3):
            starts = regression_starts(task, 4, (-1.0, 0.0), 1.0, zero, rng)
            assert [balance_residual(*start, lam) < 1e-12 for start, lam in zip(starts, (-1, 0), strict=True)] == [1, 1]
            np.testing.assert_allclose(Exact(*starts[1], task.sigma_yx).limit()[4:, :4], task.sigma_yx, atol=1e-9)


def test_fig5_the_rich_phase_is_the_later_the_larger_lambda() -> None:
    fig = numbers("fig5")
    course = np.array(fig["course"]["funnel"]["theory"])[:5]  # λ = −9 … −1.8
    half = (course > 0.5 * course[:, -1:]).argmax(1)
    assert (np.diff(np.array(fig["times"])[half]) < 0).all()


def test_fig5_a_square_network_moves_as_far_for_either_sign_on_average() -> None:
    rng, lambdas, distances = np.random.default_rng(0), (-3.0, -1.0, 0.0, 1.0, 3.0), []
    for _ in range(120):
        task = random_regression(4, 4, samples=10, scale=3**0.5, rng=rng)
        starts = regression_starts(task, 4, lambdas, 1.0, None, rng)
        ends = [converged_quadrants(task.sigma_yx, lam) for lam in lambdas]
        distances.append([ntk_distance(end, gram(*start)) for end, start in zip(ends, starts, strict=True)])
    mean = np.mean(distances, 0)
    np.testing.assert_allclose(mean, mean[::-1], rtol=0.1)
    assert mean[2] > 2 * mean[1]
