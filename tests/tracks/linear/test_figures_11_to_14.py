"""Figures 11–14 of the linear track: what the paper claims of them, theory against simulation, and their drawings."""

import numpy as np
import pytest

from supple.tracks.linear.figures.fig14 import FINETUNED, new_tasks, rebalance_to
from supple.tracks.linear.tasks import semantic_hierarchy
from supple.tracks.linear.weights import balance_residual, balanced_init
from tests.tracks.linear.figures import numbers

pytestmark = pytest.mark.slow


def test_forgetting_matches_the_closed_form() -> None:
    fig = numbers("fig11")
    np.testing.assert_allclose(fig["forgetting"], fig["forgetting_closed_form"], atol=1e-3)
    losses = np.array(fig["simulated_losses"]) - fig["least_losses"]
    learned = losses[range(4), -1, range(4)]
    assert (learned < 2e-3).all()
    assert all(losses[task + 1, -1, task] > 50 * learned[task] for task in range(3))


def test_at_lambda_zero_reversal_never_ends_in_theory_and_ends_late_by_rounding() -> None:
    fig = numbers("fig12")
    middle = fig["lambdas"].index(0.0)
    simulated, theory = fig["reversal"]["simulated"], fig["reversal"]["theory"]
    assert theory[middle] is None
    assert None not in theory[:middle] + theory[middle + 1 :]
    assert simulated[middle] > 5 * max(simulated[:middle] + simulated[middle + 1 :])
    assert all(steps[middle] < 0.5 * simulated[middle] for steps in fig["random"]["simulated"])


def test_reversal_is_slower_the_smaller_lambda_of_either_sign() -> None:
    theory = numbers("fig12")["reversal"]["theory"]
    middle = len(theory) // 2
    assert (np.diff(theory[:middle]) > 0).all()
    np.testing.assert_allclose(theory[:middle], theory[:middle:-1], rtol=1e-6)


def test_every_decade_of_lambda_costs_a_reversal_the_same_steps() -> None:
    fig = numbers("fig12")
    theory = np.array(fig["tiny"]["theory"][:-1], float)  # λ = 1, 0.1, …, 1e-16
    np.testing.assert_allclose(np.diff(theory[2:]), fig["steps_a_decade"], rtol=1e-3)


def test_reversed_singular_value_waits_at_zero() -> None:
    curves = numbers("fig12")["curves"]
    at_zero = np.array(curves["theory"])[curves["lambdas"].index(0.0)]
    assert (at_zero <= 0).all()
    assert abs(at_zero[-1]) < 1e-6
    others = [lam != 0 for lam in curves["lambdas"]]
    np.testing.assert_allclose(np.array(curves["theory"])[others, -1], curves["target"], rtol=1e-4)


def test_generalisation_loss_falls_with_lambda() -> None:
    fig = numbers("fig13")
    theory, simulated = np.array(fig["theory_loss"]), np.array(fig["simulated_loss"])
    assert (np.diff(theory) < 0).all()
    # at λ ≪ 0 the row's random start, which the trained item cannot undo, is as large as the slope
    assert (np.diff(simulated[3:]) < 0).all()
    assert theory[-1] < 1e-3 * theory[0]


def test_new_feature_spreads_by_kinship_for_large_lambda_and_not_at_all_for_very_negative() -> None:
    fig = numbers("fig13")
    features = dict(zip(fig["shown"], np.array(fig["simulated"]), strict=True))
    salmon, canary, rose = (fig["items"].index(item) for item in ("salmon", "canary", "rose"))
    for feature in features.values():
        assert feature[fig["trained"]] == pytest.approx(1, abs=1e-5)
    assert features[10][salmon] > 1.5 * features[10][canary] > 0.2
    assert features[0][canary] < 0.6 * features[10][canary]
    assert np.abs(np.delete(features[-10], fig["trained"])).max() < 0.02
    assert all(abs(feature[rose]) < 0.02 for feature in features.values())


def test_finetuning_tasks_are_those_of_the_paper() -> None:
    old = semantic_hierarchy()
    tasks = {name: task.sigma_yx - old.sigma_yx for name, task in new_tasks(old).items()}
    assert np.count_nonzero(tasks["added feature"]) == 1
    assert np.linalg.matrix_rank(tasks["reversal"]) == 1
    assert np.linalg.norm(tasks["reversal"]) == pytest.approx(2 * np.linalg.norm(old.sigma_yx, 2))
    np.testing.assert_allclose(tasks["scaled by 2"], old.sigma_yx)


def test_rebalancing_keeps_every_product_and_hits_every_lambda() -> None:
    first, second = (
        np.stack(layers) for layers in zip(*(balanced_init(1, 4, 4, 4, rng=i) for i in (0, 1)), strict=True)
    )
    w1, w2 = rebalance_to(first, second, (-3.0, 0.0, 2.0))
    np.testing.assert_allclose(w2 @ w1, np.broadcast_to((second @ first)[:, None], (2, 4, 4, 4)), atol=1e-12)
    for i, lam in enumerate((-3.0, 0.0, 2.0, 1.0)):  # the last one is as it was
        assert balance_residual(w1[:, i], w2[:, i], lam) < 1e-10


@pytest.mark.parametrize("name", ["added feature", "reversal", "scaled by 2"])
def test_finetuning_is_slowest_at_zero_and_faster_the_larger_lambda(name: str) -> None:
    left = np.array(numbers("fig14")["tasks"][name]["left"])
    middle = FINETUNED.index(0)
    assert (np.diff(left[:, : middle + 1]) > 0).all()
    assert (np.diff(left[:, middle:]) < 0).all()


@pytest.mark.parametrize("name", ["added feature", "reversal", "scaled by 2"])
def test_finetuning_does_not_depend_on_pretraining_nor_on_the_sign_of_lambda(name: str) -> None:
    fig = numbers("fig14")
    task = fig["tasks"][name]
    left = np.array(task["left"])
    np.testing.assert_allclose(left, np.broadcast_to(left[0], left.shape), atol=1e-4)
    np.testing.assert_allclose(left, left[:, ::-1], atol=1e-4)
    same_lambda = [fig["finetuned"].index(lam) for lam in fig["pretrained"]]
    np.testing.assert_allclose(task["kept"], left[range(len(same_lambda)), same_lambda], atol=1e-3)


def test_finetuning_a_reversal_at_zero_stops_at_the_saddle() -> None:
    fig = numbers("fig14")
    curves = np.array(fig["tasks"]["reversal"]["curves"])[:, -1]
    stuck = fig["shown"].index(0)
    assert curves[stuck] == pytest.approx(0.25, abs=0.01)  # (s̃ − 0)² of (s̃ + s̃)²
    assert (np.delete(curves, stuck) < 1e-3).all()
